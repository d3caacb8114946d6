"""What the operator's own configuration allows a NodeUpgrade to ask for.

A kubelet runs as root, and whoever writes a NodeUpgrade also writes the digest of the program. So where programs may
come from is not decided by the NodeUpgrade but by whoever installs the operator; and so is which files may go along,
since a kubelet's configuration, too, decides what runs as root.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from typing import TypeVar

from nodeupgrade.api.json import field_name
from nodeupgrade.api.node_files import NodeFile
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact
from nodeupgrade.sources.download_addresses import internal_host_kind
from nodeupgrade.sources.parsing import (
    Image,
    SourceError,
    Url,
    image_place,
    is_image_below,
    is_url_below,
    parse_image,
    parse_path,
    parse_url,
    path_place,
    url_place,
)

_T = TypeVar("_T")

_TEXT_LENGTH = 4096


class AllowedError(ValueError):
    """The configuration is invalid; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The configuration. An entry for places allows the place itself and everything below it."""

    urls: tuple[str, ...] = ("https://dl.k8s.io",)  # for example ``https://dl.k8s.io``
    paths: tuple[str, ...] = ("/opt/kubelet",)  # files and directories on the nodes
    images: tuple[str, ...] = ()  # repositories of images, or registries
    # SHA-256 of programs (URLs and paths), or of images (images), wherever they come from: from any place that parses
    # and is not the node's own or its cloud's
    digests: tuple[str, ...] = ()
    units: tuple[str, ...] = ("kubelet.service",)  # systemd units that may be the kubelet's
    pull_secrets: tuple[str, ...] = ()  # Secrets of the operator's namespace that images may be pulled with
    files: tuple[str, ...] = ()  # files and directories on the nodes that ``spec.files`` may write to
    hooks: tuple[str, ...] = ()  # CronJobs of the operator's namespace that ``spec.hooks`` may name


def read_allowed(value: object) -> Allowed:
    """Read the configuration as parsed from YAML. What it does not name is not allowed.

    Raises:
        AllowedError: A field is unknown, or is not a list of texts that make sense there.
    """
    if not isinstance(value, dict):
        raise AllowedError("it is not a map of lists")
    names = {field_name(field.name): field.name for field in fields(Allowed)}
    if unknown := sorted(map(str, value.keys() - names.keys())):
        raise AllowedError(f"{unknown[0]} is unknown; the known fields are {', '.join(names)}")
    lists = {name: _texts(yaml, value.get(yaml)) for yaml, name in names.items()}
    allowed = Allowed(**lists)
    places = {"urls": url_place, "paths": path_place, "images": image_place, "files": path_place}
    for name, parse in places.items():
        for entry in lists[name]:
            try:
                parse(entry)
            except SourceError as error:
                raise AllowedError(f"{name}: {entry!r} is invalid: {error}") from error
    return allowed


def forbidden(artifact: TaskArtifact, unit: str, files: Collection[NodeFile], allowed: Allowed) -> str | None:
    """Return what is not allowed about what a run is to bring onto one node, or None.

    Besides the kubelet, files are written; some are taken from the artifact's image. The unit is the kubelet's.
    """
    if unit not in allowed.units:
        return f"the unit {_shown(unit)}"
    if (path := next((file.path for file in files if not is_path_below(file.path, allowed.files)), None)) is not None:
        return f"the file {_shown(path)}"
    taken = (file.image_path for file in files if file.image_path is not None)
    if (source := next((path for path in taken if _parsed(parse_path, path) is None), None)) is not None:
        return f"the file {_shown(source)} of an image"
    return forbidden_source(artifact, allowed)


def forbidden_source(artifact: TaskArtifact, allowed: Allowed) -> str | None:
    """Return what is not allowed about where a kubelet comes from, or None.

    A digest that is listed allows any place that parses, except addresses that are the node's own or its cloud's:
    those, and places that do not parse, are never requested, since the status would reveal the answer.
    """
    if artifact.pull_secret and artifact.pull_secret not in allowed.pull_secrets:
        return f"the pull secret {_shown(artifact.pull_secret)}"
    path = _parsed(parse_path, artifact.path)
    match artifact.kind:
        case ArtifactKind.IMAGE:
            text, image = artifact.ref or "", _parsed(parse_image, artifact.ref)
            sound = image is not None and path is not None and _is_image_allowed(image, allowed)
        case ArtifactKind.URL:
            text, url = artifact.url or "", _parsed(parse_url, artifact.url)
            sound = url is not None and _is_url_allowed(url, artifact.sha256, allowed)
        case ArtifactKind.PRE_STAGED:
            text = artifact.path or ""
            sound = path is not None and (artifact.sha256 in allowed.digests or is_path_below(text, allowed.paths))
    return None if sound else f"{artifact.kind.value} {_shown(text)}"


def _is_image_allowed(image: Image, allowed: Allowed) -> bool:
    if any(is_image_below(image, place) for place in _places(image_place, allowed.images)):
        return True
    return image.digest in allowed.digests and internal_host_kind(image.registry.partition(":")[0]) is None


def _is_url_allowed(url: Url, sha256: str | None, allowed: Allowed) -> bool:
    if any(is_url_below(url, place) for place in _places(url_place, allowed.urls)):
        return True
    return sha256 in allowed.digests and internal_host_kind(url.host) is None


def is_path_below(text: str, entries: Iterable[str]) -> bool:
    """Report whether a file of a node is allowed by where it is: at or below an entry.

    Only root is expected to write there, so that the file does not change between check and use.
    """
    path = _parsed(parse_path, text)
    return path is not None and any(path.is_relative_to(place) for place in _places(path_place, entries))


def _parsed(parse: Callable[[str], _T], text: str | None) -> _T | None:
    try:
        return parse(text or "")
    except SourceError:
        return None


def _places(parse: Callable[[str], _T], entries: Iterable[str]) -> list[_T]:
    """Return what entries mean; one that means nothing allows nothing."""
    return [place for entry in entries if (place := _parsed(parse, entry)) is not None]


def _shown(place: str) -> str:
    """Return a place without what may be secret in it, or what a terminal would obey."""
    scheme, separator, rest = place.partition("://")
    if separator:
        authority, slash, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
        place = f"{scheme}{separator}{authority.rpartition('@')[2]}{slash}{path}"
    return "".join(char if char.isprintable() else "?" for char in place)


def _texts(name: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) and 0 < len(each) < _TEXT_LENGTH for each in value):
        raise AllowedError(f"{name} is not a list of strings")
    return tuple(value)
