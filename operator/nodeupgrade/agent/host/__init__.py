"""What runs on the host, as systemd units, and how the agent's pod brings it there, starts it and takes it away."""
