"""Builds adapters and hands them to the code that works with ports. No other package builds adapters.

Split by what is reached, because the executor on the host has no Kubernetes client.
"""
