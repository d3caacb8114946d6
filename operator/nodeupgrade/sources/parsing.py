"""Places that programs come from, as values: what a text means, before anybody decides about it.

What does not parse is refused, wherever it would lead. Whoever opens a place opens the one that was parsed: paths have
no links, ``.`` or ``..`` to follow, and a host is a name or an address that every resolver reads in the same way.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from pathlib import PurePosixPath
from typing import Final

from nodeupgrade.api.locations import KERNEL_DIRECTORIES, ORIGIN, PATH, URL
from nodeupgrade.api.upgrade.artifact import COMPONENT, IMAGE, REGISTRY

_PORTS: Final = {"http": 80, "https": 443}
_DOCKER_HUB: Final = frozenset({"docker.io", "index.docker.io"})
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)


class SourceError(ValueError):
    """A text does not name a place in the one way in which it may be written; the message says how that is."""


@dataclass(frozen=True, slots=True)
class Url:
    """An HTTP or HTTPS URL, or the place of all URLs below it."""

    scheme: str
    host: str  # in lower case; an IPv6 address without brackets, in its canonical form
    port: int
    path: tuple[str, ...] = ()  # its parts; empty only for a place


@dataclass(frozen=True, slots=True)
class Image:
    """An image, or the place of all images below it."""

    registry: str  # host, in lower case, and port as it is written
    repository: tuple[str, ...] = ()  # its parts; empty only for a place
    digest: str = ""  # SHA-256 of the manifest in hexadecimal; empty only for a place


def parse_url(text: str) -> Url:
    """Return what a URL means.

    Raises:
        SourceError: It has a user, query, fragment, no path, or anything else than plain parts in it.
    """
    if re.fullmatch(URL, text, re.ASCII) is None:
        raise SourceError("it is not a URL without user, query, fragment and escapes")
    return _url(text)


def parse_origin(text: str) -> Url:
    """Return scheme, host and port of a URL that a server redirects to; its path and query may be anything visible.

    Raises:
        SourceError: It is not HTTP or HTTPS, has a user, or its host is not plain.
    """
    found = re.match(rf"{ORIGIN}(?=[/?#]|$)", text, re.ASCII)
    if found is None or not (text.isascii() and text.isprintable()) or "\\" in text or " " in text:
        raise SourceError("it is not an http or https URL with a plain host")
    return _url(found[0])


def parse_path(text: str) -> PurePosixPath:
    """Return what an absolute path means.

    Raises:
        SourceError: It is relative, has parts that are not plain, or leads to what the kernel shows as files.
    """
    if re.fullmatch(PATH, text, re.ASCII) is None:
        raise SourceError("it is not an absolute path without . and .., % and \\")
    path = PurePosixPath(text)
    if path.parts[1] in KERNEL_DIRECTORIES:
        raise SourceError(f"/{path.parts[1]} contains no programs")
    return path


def parse_image(text: str) -> Image:
    """Return what a reference of an image means, as container runtimes read it.

    Raises:
        SourceError: It does not name registry, repository and digest.
    """
    if re.fullmatch(IMAGE, text, re.ASCII) is None:
        raise SourceError("it is not an image with its registry, pinned by digest")
    name, _, digest = text.partition("@sha256:")
    registry, *repository = name.split("/")
    repository[-1] = repository[-1].partition(":")[0]
    return _image(registry, tuple(repository), digest)


def url_place(text: str) -> Url:
    """Return the place that an entry of the configuration for URLs means; its path may be empty or end in a slash.

    Raises:
        SourceError: As for a URL.
    """
    text = text.removesuffix("/")
    if re.fullmatch(ORIGIN, text, re.ASCII) is None and re.fullmatch(URL, text, re.ASCII) is None:
        raise SourceError("it is not like https://dl.k8s.io or https://mirror.example/kubelets")
    return _url(text)


def path_place(text: str) -> PurePosixPath:
    """Return the place that an entry for paths means; it may be the root, and may end in a slash.

    Raises:
        SourceError: As for a path.
    """
    return PurePosixPath("/") if text == "/" else parse_path(text.removesuffix("/"))


def image_place(text: str) -> Image:
    """Return the place that an entry for images means: a registry or a repository; it may end in a slash.

    Raises:
        SourceError: It does not name a registry.
    """
    registry, *repository = text.removesuffix("/").split("/")
    if re.fullmatch("/".join((REGISTRY, *(f"({COMPONENT})" for _ in repository))), text.removesuffix("/"), re.ASCII):
        return Image(_registry(registry), tuple(repository))
    raise SourceError("it is not like registry.example or registry.example/kubelets")


def is_url_below(url: Url, place: Url) -> bool:
    """Report whether a URL is a place or below it."""
    same = (url.scheme, url.host, url.port) == (place.scheme, place.host, place.port)
    return same and url.path[: len(place.path)] == place.path


def is_image_below(image: Image, place: Image) -> bool:
    """Report whether an image is in a registry, or in a repository or one below it."""
    return image.registry == place.registry and image.repository[: len(place.repository)] == place.repository


def _url(text: str) -> Url:
    scheme, _, rest = text.partition("://")
    authority, *path = rest.split("/")
    if authority.startswith("["):
        inner, _, port = authority[1:].partition("]")
        host = _ipv6(inner)
    else:
        name, _, port = authority.partition(":")
        host = _name(name)
    number = int(port.removeprefix(":") or _PORTS[scheme])
    if number > 65535:
        raise SourceError("its port is too large")
    return Url(scheme, host, number, tuple(path))


def _ipv6(text: str) -> str:
    try:
        return IPv6Address(text).compressed
    except ValueError as error:
        raise SourceError("its host is not an IPv6 address") from error


def _name(text: str) -> str:
    """Return a host name, or an IPv4 address that is written as every resolver reads it: not octal, not shortened."""
    if _NUMBER.fullmatch(text.rpartition(".")[2]):
        try:
            return IPv4Address(text).compressed
        except ValueError as error:
            raise SourceError("its host is neither a name nor an IPv4 address of four decimal numbers") from error
    return text.lower()


def _image(registry: str, repository: tuple[str, ...], digest: str) -> Image:
    host = _registry(registry)
    official = host == "docker.io" and len(repository) == 1
    return Image(host, ("library", *repository) if official else repository, digest)


def _registry(text: str) -> str:
    name, colon, port = text.partition(":")
    if port and int(port) > 65535:
        raise SourceError("the port of its registry is too large")
    host = _name(name)
    return "docker.io" if host in _DOCKER_HUB and not colon else f"{host}{colon}{port}"
