"""Jobs that run before and after a node's upgrade."""
