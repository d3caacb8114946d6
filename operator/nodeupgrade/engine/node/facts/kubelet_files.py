"""Gather the kubelet's own files: program, state, credentials, manifests of static pods. Changes nothing."""

from datetime import datetime
from pathlib import PurePosixPath

import yaml

from nodeupgrade.api.yaml import read_one
from nodeupgrade.domain.node.checks.startup import Identity
from nodeupgrade.domain.node.exchanged_files import EntryKind
from nodeupgrade.domain.node.mounts import is_mount_point, is_read_only
from nodeupgrade.engine.node.facts.own_places import mounts
from nodeupgrade.kubelet.credentials import CredentialProgramError, parse
from nodeupgrade.kubelet.layout import DEFAULT_ROOT, READ_AT_START, KubeletLayout
from nodeupgrade.ports.files import FilesView


def unchangeable(files: FilesView, program: PurePosixPath | None, layout: KubeletLayout) -> tuple[str, ...]:
    """Return the immutable paths among those a run changes: the program, its directory, and static pod manifests."""
    changed = [] if program is None else [program, program.parent]
    if layout.manifests is not None:
        changed += [PurePosixPath(layout.manifests), *paths(files, layout)]
    return tuple(str(path) for path in changed if files.immutable(path))


def mounted(files: FilesView, program: PurePosixPath | None, layout: KubeletLayout) -> tuple[str, ...]:
    """Return the mount points among the files that a run replaces: the program, and static pod manifests."""
    table, replaced = mounts(files), [*([] if program is None else [program]), *paths(files, layout)]
    return tuple(str(path) for path in replaced if is_mount_point(table, path))


def read_only(files: FilesView, *directories: PurePosixPath) -> tuple[str, ...]:
    """Return the directories that are mounted read-only on the host."""
    table = mounts(files)
    return tuple(str(directory) for directory in directories if is_read_only(table, directory))


def state(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    """Return the content of the kubelet's state files, by their path below its root directory."""
    found = {name: files.read(PurePosixPath(layout.root) / name) for name in READ_AT_START}
    return {name: data for name, data in found.items() if data is not None}


# Gather the credentials that a starting kubelet would use. Asks nobody and changes nothing.

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


# The manifests of static pods, as a kubelet finds them: regular files and symbolic links, except hidden ones.


def manifests(files: FilesView, layout: KubeletLayout) -> dict[str, bytes]:
    """Return the contents of the manifests by path; behind a symbolic link is the path of the file that it leads to."""
    found = {str(path): files.read(path) for path in paths(files, layout)}
    return {path: data for path, data in found.items() if data is not None}


def paths(files: FilesView, layout: KubeletLayout) -> tuple[PurePosixPath, ...]:
    """Return the paths of the manifests, sorted. Two names of one file remain two, since they are two pods."""
    if layout.manifests is None:
        return ()
    directory = PurePosixPath(layout.manifests)
    here = [path for path in files.walk(directory) if path.parent == directory and not path.name.startswith(".")]
    links = [path for path in here if (entry := files.entry(path)) is not None and entry.kind is EntryKind.LINK]
    found = {path for path in here if path not in links}
    for link in links:
        if (real := files.real(link)) is not None:
            found.add(link if real in found else real)
    return tuple(sorted(found))
