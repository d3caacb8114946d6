"""The only place that builds adapters and hands them to those who work with ports.

Split by what is reached, because the executor on the host carries no Kubernetes client.
"""
