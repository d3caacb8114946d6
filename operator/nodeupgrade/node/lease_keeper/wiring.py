"""Accesses a node's Lease from the node. Imports no runtime adapters, nor anything that they need."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath, PurePosixPath

from nodeupgrade import bundle
from nodeupgrade.kubelet.kubeconfig import inlined, parse
from nodeupgrade.node.host.files.reading import read_file
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
    found = parse(_content(kubeconfig), kubeconfig.parent)
    if found.program is not None:
        found = inlined(found, _content)
    root = os.environ.get(bundle.LOCATION_VARIABLE)
    interpreter = INTERPRETER if root is None else bundle.interpreter(PurePath(root))
    programs = CredentialPrograms(Path("/"), interpreter)
    return KubeletLease(source=programs.source(kubeconfig, found, partial(_read, environment)), node=node)


def _content(path: str | PurePath) -> bytes:
    return read_file(Path(path), follow=True)  # kubelets keep certificates behind a link


def _read(environment: Path) -> Mapping[str, str]:
    variables: dict[str, str] = parse_json(read_file(environment))
    return variables
