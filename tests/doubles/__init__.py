"""In-memory doubles of the ports: a node whose kubelet compares hashes, and an API server with conflicts."""
