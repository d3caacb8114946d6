"""What proves that nothing restarted: the comparison of two inventories, and what else may have ended a container."""
