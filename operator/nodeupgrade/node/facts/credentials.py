"""Gather the credentials that a starting kubelet would use. Changes nothing."""

from datetime import datetime
from http import HTTPStatus
from pathlib import PurePosixPath

import yaml

from nodeupgrade.api.yaml import read_first
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.kubelet.credential_program import CredentialProgramError
from nodeupgrade.kubelet.kubeconfig import parse
from nodeupgrade.kubelet.layout import DEFAULT_ROOT, KubeletLayout
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.checks.startup import Identity
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.node import HostView

ROTATED = "kubelet-client-current.pem"
"""In the certificate directory: with rotateCertificates, used instead of the kubeconfig's certificate."""
REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
"""The answers to a kubelet that requests its own Node with credentials that are not its own."""


def identity(files: FilesView, layout: KubeletLayout, now: datetime) -> Identity | None:
    """Return the credentials; ``None`` if the kubelet has no kubeconfig."""
    if layout.kubeconfig is None:
        return None
    path = PurePosixPath(layout.kubeconfig)
    text = files.read(path)
    if text is None:
        return Identity(now=now, problem=f"there is no {path}")
    try:
        if not isinstance(read_first(text), dict):
            return Identity(now=now, problem=f"{path} is not a kubeconfig")
    except (yaml.YAMLError, UnicodeError):
        return Identity(now=now, problem=f"{path} is not a kubeconfig")
    found = _rotated(files, layout)
    try:
        credentials = parse(text, path.parent)
    except ValueError as error:
        return Identity(now=now, certificates=found, by_program=isinstance(error, CredentialProgramError))
    if credentials.program is not None:
        return Identity(now=now, certificates=found, by_program=True)
    named = credentials.certificate
    if named.data is not None:
        found[str(path)] = named.data
    elif named.path is not None and (data := files.read(PurePosixPath(named.path))) is not None:
        found[named.path] = data
    problem = f"there is no {named.path}, which {path} names" if named.path is not None and not found else ""
    return Identity(now=now, certificates=found, problem=problem)


def unusable_credentials(host: HostView, facts: NodeFacts) -> str:
    """Return why the credentials of a program are unusable; empty if they work, without a program or an answer."""
    kubeconfig, found = facts.readiness.layout.kubeconfig, facts.readiness.host.identity
    if kubeconfig is None or found is None or not found.by_program:
        return ""
    try:
        name = (facts.node.get("metadata") or {}).get("name")
        answer = host.as_kubelet(PurePosixPath(kubeconfig), facts.kubelet.unit.main_pid).read(f"/api/v1/nodes/{name}")
    except StepFailed as error:
        return str(error)
    except Transient:
        return ""
    if answer.status in REFUSED:
        return (
            f"the program that {kubeconfig} names prints credentials that the API server refuses: HTTP {answer.status}"
        )
    return ""


def _rotated(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    settings = layout.settings
    if settings.text("rotate-certificates", "rotateCertificates").lower() != "true":
        return {}
    root = settings.flag("root-dir") or DEFAULT_ROOT
    path = PurePosixPath(settings.flag("cert-dir") or f"{root}/pki") / ROTATED
    data = files.read(path)
    return {} if data is None else {str(path): data}
