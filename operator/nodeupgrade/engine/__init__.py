"""Executes decisions through ports: the run of one node and the loop of one rollout. Uses no vendor library."""
