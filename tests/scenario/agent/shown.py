"""What the API server shows of the node."""

from typing import Any

from nodeupgrade.api.json import Json

NODE_STATUS: Json = {
    "capacity": {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "100Gi", "pods": "110"},
    "allocatable": {"cpu": "8", "memory": "16284Mi", "ephemeral-storage": "90Gi", "pods": "110"},
    "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.9"},
}
"""A node with room for every pod, whose kubelet reserves nothing but what it does by default."""


def shown_node(name: str, kubelet: str | None, labels: dict[str, str], status: dict[str, Any]) -> Json:
    """The Node, with what of its status is another one, and the version that its kubelet has reported."""
    metadata = {"name": name, "uid": "node-uid", "resourceVersion": "1", "labels": labels}
    shown = {**NODE_STATUS, **status}
    return {"metadata": metadata, "status": shown | {"nodeInfo": {**shown["nodeInfo"], "kubeletVersion": kubelet}}}
