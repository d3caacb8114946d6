"""Plans, journals and messages of runs on a node's disk."""
