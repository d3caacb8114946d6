"""What only the API server knows of a node: its clock, its endpoints, what depends on its pods, the readiness guard."""
