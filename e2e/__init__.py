"""End-to-end tests and the lab they run in."""
