"""The node side: the agent in its pod, and the executor on the host to which it hands a run over."""
