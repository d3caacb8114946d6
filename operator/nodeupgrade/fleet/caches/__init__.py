"""What the controllers know of the cluster."""
