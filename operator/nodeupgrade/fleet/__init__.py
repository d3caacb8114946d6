"""Everything that happens for many nodes."""
