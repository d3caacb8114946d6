"""Gather the credentials that a starting kubelet would use. Asks nobody and changes nothing."""

from datetime import datetime
from pathlib import PurePosixPath

import yaml

from nodeupgrade.api.yaml import read_one
from nodeupgrade.kubelet.credential_program import CredentialProgramError
from nodeupgrade.kubelet.kubeconfig import parse
from nodeupgrade.kubelet.layout import DEFAULT_ROOT, KubeletLayout
from nodeupgrade.node.checks.startup import Identity
from nodeupgrade.node.host.files.files import FilesView

ROTATED = "kubelet-client-current.pem"
"""In the directory of certificates: what a kubelet with rotateCertificates uses rather than its kubeconfig's."""


def identity(files: FilesView, layout: KubeletLayout, now: datetime) -> Identity | None:
    """Return the credentials; ``None`` if the kubelet has no kubeconfig."""
    if layout.kubeconfig is None:
        return None
    path = PurePosixPath(layout.kubeconfig)
    text = files.read(path)
    if text is None:
        return Identity(now=now, problem=f"there is no {path}")
    try:
        if not isinstance(read_one(text), dict):
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


def _rotated(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    settings = layout.settings
    if settings.text("rotate-certificates", "rotateCertificates").lower() != "true":
        return {}
    root = settings.flag("root-dir") or DEFAULT_ROOT
    path = PurePosixPath(settings.flag("cert-dir") or f"{root}/pki") / ROTATED
    data = files.read(path)
    return {} if data is None else {str(path): data}
