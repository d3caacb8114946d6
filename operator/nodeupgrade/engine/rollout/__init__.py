"""One rollout's loop: read, plan, apply."""
