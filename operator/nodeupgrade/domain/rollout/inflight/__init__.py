"""The lifecycle of a node in a rollout: claim, run, verdict, retry."""
