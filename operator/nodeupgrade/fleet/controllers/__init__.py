"""The controllers of rollouts and of nodes in flight."""
