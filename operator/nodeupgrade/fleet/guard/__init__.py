"""The readiness guard."""
