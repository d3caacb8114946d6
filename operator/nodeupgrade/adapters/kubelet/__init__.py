"""Access to the kubelet of one node."""
