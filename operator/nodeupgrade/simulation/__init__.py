"""In-memory doubles of the ports: a node whose kubelet really compares hashes, and an API server that conflicts."""
