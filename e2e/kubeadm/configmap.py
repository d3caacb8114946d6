"""The configuration of kubelets that kubeadm keeps in the cluster, and writes onto nodes."""

import contextlib
from collections.abc import Iterator
from typing import Any

import yaml

from e2e.lab.lab import Lab

NAME, NAMESPACE, KEY = "kubelet-config", "kube-system", "kubelet"


def read(lab: Lab) -> str:
    """Return the text of the cluster's configuration."""
    return str(lab.api.get("configmaps", NAME, namespace=NAMESPACE)["data"][KEY])


@contextlib.contextmanager
def changed(lab: Lab, **settings: object) -> Iterator[None]:
    """Change the cluster's configuration, and restore it at the end."""
    before = read(lab)
    _write(lab, yaml.safe_dump({**yaml.safe_load(before), **settings}))
    try:
        yield
    finally:
        _write(lab, before)


def _write(lab: Lab, text: str) -> None:
    metadata: dict[str, Any] = {"name": NAME, "namespace": NAMESPACE}
    lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: text}})
