"""The Kubernetes API, as raw JSON over the official client's transport."""

from nodeupgrade.adapters.kube.client import KubeClient

__all__ = ["KubeClient"]
