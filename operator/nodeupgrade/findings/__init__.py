"""What may speak against touching a node: checks, hazards, findings."""
