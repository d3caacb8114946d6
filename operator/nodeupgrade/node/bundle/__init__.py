"""Builds and stages the self-contained Python that programs on the host run from."""
