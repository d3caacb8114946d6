"""Facts about the host that a kubelet starts on. Nothing here changes the node."""
