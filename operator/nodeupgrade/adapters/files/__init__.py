"""Files of one node, changed atomically and durably."""
