"""Writes in progress: which go out at the same time, and which first."""
