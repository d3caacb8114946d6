"""Health checks of the cluster."""
