"""One rollout: node selection, pacing, the lifecycle of nodes in flight, and status reporting."""
