"""What a NodeUpgrade reports: phase, counts, conditions and events."""
