"""What people install: the manifests, the chart and a release."""
