"""The operator's metrics."""
