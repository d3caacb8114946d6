"""The systemd units on the host, and how the agent installs, starts and removes them."""
