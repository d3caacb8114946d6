"""Pods and Nodes as the API server shows them, and access to it."""
