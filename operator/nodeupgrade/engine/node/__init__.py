"""One node's run, carried out over ports."""
