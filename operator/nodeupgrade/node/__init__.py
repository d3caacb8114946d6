"""Everything that happens on one node."""
