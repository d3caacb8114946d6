"""Proof that nothing restarted."""
