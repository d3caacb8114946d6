"""The client of the API server, around the official library."""
