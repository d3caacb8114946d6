"""Which nodes take part in a rollout, which wave each is in, and whether it may be upgraded now."""
