"""The kubeconfig files of a person, read without the official library: kubectl alone may be there."""

import os
from collections.abc import Iterable
from pathlib import Path

import yaml

from nodeupgrade.api.yaml import Value, read_one
from nodeupgrade.cluster.kube_api import NoClusterError


def documents(kubeconfig: Path | None) -> list[dict[str, Value]]:
    """Read all files that a kubeconfig consists of, except those that can be read only once.

    Args:
        kubeconfig: One file or several, as in $KUBECONFIG; None means this variable, or the default file.

    Raises:
        NoClusterError: There is none, or one of them cannot be read, or is no YAML.
    """
    name = kubeconfig or "the default kubeconfig"
    paths = str(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    existing = [found for path in paths if path and (found := Path(path).expanduser()).exists()]
    if not existing:
        raise NoClusterError(f"cannot use {name} because no such file: {' or '.join(paths)}")
    try:
        return [_document(path) for path in existing if path.is_file()]
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise NoClusterError(f"cannot use {name} because {error}") from error


def context_names(kubeconfig: Path | None) -> tuple[str, ...]:
    """Return the names of all contexts of a kubeconfig, in the order of the files.

    Raises:
        NoClusterError: As ``documents``.
    """
    listed = (document.get("contexts") for document in documents(kubeconfig))
    every = (entry for contexts in listed if isinstance(contexts, list) for entry in contexts)
    return tuple(dict.fromkeys(_names(every)))


def _names(entries: Iterable[Value]) -> Iterable[str]:
    return (name for entry in entries if isinstance(entry, dict) and isinstance(name := entry.get("name"), str))


def _document(path: Path) -> dict[str, Value]:
    try:
        document = read_one(path.read_bytes())
    except yaml.MarkedYAMLError as error:  # its text would show what stands there
        line = "" if error.problem_mark is None else f" in line {error.problem_mark.line + 1}"
        raise ValueError(f"{path} is not YAML{line}: {error.problem}") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path} is {'empty' if document is None else 'not a kubeconfig'}")  # noqa: TRY004 - of the file
    return document
