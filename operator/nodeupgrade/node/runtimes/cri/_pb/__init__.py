"""Messages of the CRI, generated."""
