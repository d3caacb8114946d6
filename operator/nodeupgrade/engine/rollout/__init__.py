"""The reconcile loop of one rollout: read, plan, apply."""
