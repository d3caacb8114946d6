"""Collects the facts that the checks judge. Nothing is changed here."""
