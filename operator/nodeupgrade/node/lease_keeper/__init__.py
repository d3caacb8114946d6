"""Renews the node's Lease while no kubelet does."""
