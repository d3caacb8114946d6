"""Locates the manifests that install the operator."""

from pathlib import Path

MANIFESTS = Path(__file__).parents[2] / "manifests"
