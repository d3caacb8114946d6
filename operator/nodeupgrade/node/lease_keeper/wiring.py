"""Accesses a node's Lease from the node. Imports no runtime adapters, nor anything that they need."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath, PurePosixPath

from nodeupgrade import bundle
from nodeupgrade.kubelet.kubeconfig import inlined, parse
from nodeupgrade.node.running_kubelet.credential_programs import CredentialPrograms
from nodeupgrade.node.running_kubelet.isolation import INTERPRETER
from nodeupgrade.node.running_kubelet.requests import KubeletLease
from nodeupgrade.text import parse_json


def lease_of(node: str, kubeconfig: PurePosixPath, environment: Path) -> KubeletLease:
    """Return the Lease of a node, with the credentials of its kubelet.

    Args:
        node: name of the Node.
        kubeconfig: the kubelet's.
        environment: file with the kubelet's environment, read only if a program prints the credentials.

    Raises:
        OSError, ValueError: there are no credentials.
    """
    found = parse(Path(kubeconfig).read_bytes(), kubeconfig.parent)
    if found.program is not None:
        found = inlined(found, lambda path: Path(path).read_bytes())
    root = os.environ.get(bundle.LOCATION_VARIABLE)
    interpreter = INTERPRETER if root is None else bundle.interpreter(PurePath(root))
    programs = CredentialPrograms(Path("/"), interpreter)
    return KubeletLease(source=programs.source(kubeconfig, found, partial(_read, environment)), node=node)


def _read(environment: Path) -> Mapping[str, str]:
    variables: dict[str, str] = parse_json(environment.read_bytes())
    return variables
