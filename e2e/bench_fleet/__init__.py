"""Measures how the operator keeps up with a fleet: a real kube-apiserver, and simulated node sides."""
