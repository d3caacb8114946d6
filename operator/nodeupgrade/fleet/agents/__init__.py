"""Agent pods: when they are created and deleted, and their manifests."""
