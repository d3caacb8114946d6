"""Client for the Kubernetes API: raw JSON over the official client's transport."""

from nodeupgrade.adapters.kube.client import KubeClient
from nodeupgrade.adapters.kube.transport import Patience, Session

__all__ = ["KubeClient", "Patience", "Session"]
