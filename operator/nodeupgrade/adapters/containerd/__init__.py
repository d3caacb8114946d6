"""The containerd runtime: its containers and sandboxes, and the container hashes that it stores for the kubelet."""
