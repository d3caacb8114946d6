"""The node side: what runs in the agent's pod, and the executor that it hands over to on the host."""
