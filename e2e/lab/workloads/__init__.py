"""Pods for tests, and what the clients of their Services notice."""
