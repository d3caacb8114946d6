"""Builds Pods with owner references."""

from typing import Any


def pod(name: str, *owners: Any, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": name, "uid": name, "ownerReferences": list(owners), **metadata}}


def owner(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "name": name, "controller": True, **fields}


REPLICAS = owner("ReplicaSet", "web-5d4f8c")
HASHED = {"labels": {"pod-template-hash": "5d4f8c"}}
