"""The shield between a kubelet and its runtime."""
