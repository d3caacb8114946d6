"""What the operator's own configuration allows a NodeUpgrade to ask for.

A kubelet runs as root, and whoever writes a NodeUpgrade also writes the digest of the program. So where programs may
come from is not decided by the NodeUpgrade but by whoever installs the operator; and so is which files may go along,
since a kubelet's configuration, too, decides what runs as root.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from urllib.parse import unquote, urlsplit

from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact

_TEXT_LENGTH = 4096


class AllowedError(ValueError):
    """The configuration is invalid; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The configuration. An entry for places allows the place itself and everything below it.

    Attributes:
        urls: for example ``https://dl.k8s.io``.
        paths: files and directories on the nodes.
        images: repositories of images, or registries.
        digests: SHA-256 of programs, or of images, wherever they come from.
        units: systemd units that may be the kubelet's.
        pull_secrets: Secrets of the operator's namespace that images may be pulled with.
        files: files and directories on the nodes that ``spec.files`` may write to.
    """

    urls: tuple[str, ...] = ("https://dl.k8s.io",)
    paths: tuple[str, ...] = ("/opt/kubelet",)
    images: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    units: tuple[str, ...] = ("kubelet.service",)
    pull_secrets: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def read_allowed(value: object) -> Allowed:
    """Read the configuration as parsed from YAML. What it does not name is not allowed.

    Raises:
        AllowedError: A field is unknown, or is not a list of texts that make sense there.
    """
    if not isinstance(value, dict):
        raise AllowedError("it is not a map of lists")
    names = {_yaml_name(field.name): field.name for field in fields(Allowed)}
    if unknown := sorted(map(str, value.keys() - names.keys())):
        raise AllowedError(f"{unknown[0]} is unknown; known are {', '.join(names)}")
    lists = {name: _texts(yaml, value.get(yaml)) for yaml, name in names.items()}
    allowed = Allowed(**lists)
    for url in allowed.urls:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.netloc or "@" in parts.netloc or parts.query:
            raise AllowedError(f"urls: {url!r} is not like https://dl.k8s.io or https://mirror.example/kubelets")
    for name, paths in (("paths", allowed.paths), ("files", allowed.files)):
        for path in paths:
            if not path.startswith("/") or not _is_plain(path.rstrip("/")):
                raise AllowedError(f"{name}: {path!r} is not an absolute path without . and ..")
    return allowed


def forbidden(artifact: TaskArtifact, unit: str, files: Iterable[str], allowed: Allowed) -> str | None:
    """Return what is not allowed about what a run is to bring onto one node, or None.

    Args:
        artifact: The kubelet.
        unit: The unit that runs it.
        files: Paths on the node that are written to besides.
        allowed: The configuration.
    """
    if unit not in allowed.units:
        return f"the unit {unit}"
    others = (path for path in files if not (_is_plain(path) and _is_below(path, allowed.files)))
    if (file := next(others, None)) is not None:
        return f"the file {file}"
    return _forbidden_source(artifact, allowed)


def _forbidden_source(artifact: TaskArtifact, allowed: Allowed) -> str | None:
    if artifact.pull_secret and artifact.pull_secret not in allowed.pull_secrets:
        return f"the pull secret {artifact.pull_secret}"
    if _digest(artifact) in allowed.digests:
        return None
    match artifact.kind:
        case ArtifactKind.IMAGE:
            place, places = _repository(artifact.ref or ""), allowed.images
        case ArtifactKind.URL:
            place, places = artifact.url or "", allowed.urls
        case ArtifactKind.PRE_STAGED:
            place, places = artifact.path or "", allowed.paths
    return None if _is_plain(place) and _is_below(place, places) else f"{artifact.kind.value} {_shown(place)}"


def _digest(artifact: TaskArtifact) -> str:
    return artifact.sha256 or (artifact.ref or "").rpartition("@sha256:")[2]


def _repository(ref: str) -> str:
    """Return an image's repository, without tag and digest."""
    name = ref.partition("@")[0]
    above, slash, last = name.rpartition("/")
    return f"{above}{slash}{last.partition(':')[0]}"


def _is_below(place: str, places: Iterable[str]) -> bool:
    """Report whether a place is one of these or below one; a name ends at a slash, so no host is part of another."""
    return any(place == each.rstrip("/") or place.startswith(f"{each.rstrip('/')}/") for each in places)


def _is_plain(place: str) -> bool:
    """Report whether a place means what it looks like: no way up, encoded or not, no empty part, nothing invisible."""
    _, _, path = place.rpartition("://")
    decoded = unquote(unquote(path))
    parts = decoded.split("/")
    ways = {".", ".."} & set(parts) or "" in parts[1:]
    return not ways and "\\" not in decoded and decoded.isprintable() and " " not in decoded


def _shown(place: str) -> str:
    """Return a URL without what may be secret in it."""
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else place


def _texts(name: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) and 0 < len(each) < _TEXT_LENGTH for each in value):
        raise AllowedError(f"{name} is not a list of texts")
    return tuple(value)


def _yaml_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
