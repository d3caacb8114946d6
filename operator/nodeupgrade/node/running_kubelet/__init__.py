"""The kubelet that runs on the node."""
