"""The journal of a run, on disk."""
