"""URLs, paths and images made at random: the decision about them, and what an independent reader makes of them.

The readers share nothing with the project's parser. A path is what the kernel opens in a real directory; a URL is what
urllib, curl and browsers make of it, as far as they agree; an image is what the reference implementation of
container runtimes normalizes it to. What all read alike, as it is written, is allowed if it is below what is listed;
everything else is refused: no disagreement, either way.

    python -m pytest -m slow tests/fuzz/test_sources.py

decides about a hundred thousand, and prints how they ended.
"""

import os
import posixpath
import re
import socket
import string
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact
from nodeupgrade.sources.allowlist import Allowed, forbidden

FEW, MANY = 700, 33_400
"""Of each of the three kinds."""

SHA = "a" * 64
LISTED = Allowed(
    urls=("https://dl.k8s.io", "http://mirror.example:8080/kubelets/", "http://10.1.2.3/k"),
    paths=("/opt/kubelet", "/srv/a/b/"),
    images=("registry.example/kubelet", "docker.io/library", "localhost:5000"),
)
BY_DIGEST = Allowed(urls=(), paths=(), images=(), digests=(SHA,))

PLAIN = frozenset(string.ascii_letters + string.digits + "_.+:@,=~-/")
_PATHS = ("/opt/kubelet", "/srv/a/b", "/opt", "/srv/a", "/proc/1/root", "/dev", "/sys", "/var/lib/kubelet/pods", "opt")
_URLS = (
    *("https://dl.k8s.io", "http://mirror.example:8080/kubelets", "http://10.1.2.3/k", "http://dl.k8s.io"),
    *("https://DL.k8s.io:443", "https://dl.k8s.io:8443", "https://dl.k8s.io.evil.example", "https://evil.example"),
    *("https://127.0.0.1", "http://169.254.169.254", "http://[::1]", "http://[fe80::1]:80", "http://localhost:80"),
    *("http://[::ffff:127.0.0.1]", "http://127.1", "http://0x7f.1", "http://2130706433", "http://010.1.2.3", "ftp://a"),
)
_IMAGES = (
    *("registry.example/kubelet", "docker.io/library/k", "docker.io/k", "index.docker.io/k", "localhost:5000/k", "k"),
    *(
        "registry.example/kubelet-evil",
        "registry.example:5000/kubelet",
        "library/k",
        "127.0.0.1:5000/k",
        "evil.example/k",
    ),
    *("localhost/k", "REGISTRY.example/kubelet", "registry.example"),
)
_BITS = (
    *("/", "//", "/..", "/.", "/...", "..", ".", "\\", "%", "%2e%2e", "%2E", "%2f", "%252e", "%5c", "%00", "\x00"),
    *("\n", "\r", "\t", " ", "\x1b", "\u200b", "\u202e", "\uff0e\uff0e", "\uff0f", "\u0660", "é", "💥", "://", ":"),
    *(
        "@",
        "a@",
        "?",
        "#",
        "?x=://y",
        ";",
        "&",
        "|",
        "*",
        "kubelet",
        "/kubelet",
        "evil",
        "/evil",
        "/v1.33.13+k3s1",
        "A",
    ),
    *(
        "_",
        "-",
        "__",
        ":v1",
        ":80",
        ":0",
        ":65536",
        f"@sha256:{SHA}",
        "@sha256:",
        "0",
        "x",
        "/proc",
        "/a",
        "~",
        "+",
        "=",
    ),
)
_WHERE = st.integers(0, 200)


def texts(beginnings: tuple[str, ...], end: str = "") -> st.SearchStrategy[str]:
    """Return something that begins well, goes on with anything, and may be damaged anywhere."""

    def damaged(text: str, bit: str, where: int) -> str:
        at = where % (len(text) + 1)
        return text[:at] + bit + text[at:]

    tail = st.lists(st.sampled_from(_BITS), max_size=5).map("".join)
    whole = st.tuples(st.sampled_from(beginnings), tail, st.sampled_from((end, end, end, ""))).map("".join)
    return st.one_of(whole, st.builds(damaged, whole, st.one_of(st.sampled_from(_BITS), st.text(max_size=2)), _WHERE))


@dataclass(frozen=True)
class Reading:
    """What a URL means to one reader."""

    scheme: str
    host: str
    port: int | None
    path: str
    more: bool = False


def by_urllib(text: str) -> Reading | None:
    """Read a URL as Python does, which fetches it."""
    try:
        parts = urlsplit(text)
        more = bool(parts.username is not None or parts.password is not None or "?" in text or "#" in text)
        return Reading(parts.scheme, parts.hostname or "", parts.port, parts.path, more)
    except ValueError:
        return None


def by_browsers(text: str) -> Reading | None:
    """Read a URL as the URL standard of browsers says: forgiving, and so in another way than others."""
    text = re.sub(r"[\t\n\r]", "", text.strip("".join(map(chr, range(33)))))
    scheme, separator, rest = text.partition(":")
    if not separator or scheme.lower() not in {"http", "https"}:
        return None
    rest = rest.split("#")[0].split("?")[0].replace("\\", "/").lstrip("/")
    authority, _, path = rest.partition("/")
    user, at, place = authority.rpartition("@")
    found = re.fullmatch(r"(\[[^]]*\]|[^:]*)(?::(\d*))?", place)
    if found is None:
        return None
    kept: list[str] = []
    for part in path.split("/"):
        plain = part.lower().replace("%2e", ".")
        if plain == "..":
            kept = kept[:-1]
        elif plain != ".":
            kept.append(part)
    host = unquote(found[1]).lower().strip("[]")
    return Reading(scheme.lower(), host, int(found[2]) if found[2] else None, f"/{'/'.join(kept)}", bool(at or user))


def host_of(text: str) -> str | None:
    """Return a host as a resolver takes it: every number that means an address in any notation is that address."""
    if ":" in text:
        try:
            return IPv6Address(text).compressed
        except ValueError:
            return None
    if re.fullmatch(r"(0x[0-9a-f]*|\d+)(\.(0x[0-9a-f]*|\d+))*", text.lower()):
        try:
            return str(IPv4Address(socket.inet_aton(text)))
        except (OSError, ValueError):
            return None
    return text


def url_oracle(text: str, listed: Allowed) -> bool:
    """Report whether a URL is below a listed one for every reader, and written as all of them would write it."""
    if any(not " " < char <= "~" for char in text):
        return False  # curl refuses what urllib and browsers leave out
    first, second = by_urllib(text), by_browsers(text)
    if first is None or second is None or first.more or second.more:
        return False
    port = {"http": 80, "https": 443}.get(first.scheme)
    one, other = (Reading(r.scheme, r.host, r.port or port, r.path) for r in (first, second))
    if one != other or first.scheme not in {"http", "https"} or not text.startswith(f"{first.scheme}://"):
        return False
    host, spelled = host_of(one.host), one.host
    if host is None or (":" not in spelled and host != spelled) or first.port == 0 or not _is_name(spelled):
        return False
    authority = text.removeprefix(f"{first.scheme}://").split("/")[0]
    written = authority.lower().removeprefix("[").partition("]" if ":" in spelled else ":")
    if written[0] != spelled or re.search(r":(0|$)", authority.rpartition("]")[2]):
        return False
    if not _is_plain_path(one.path):
        return False
    for place in listed.urls:
        at = urlsplit(place)
        same = (at.scheme, at.hostname, at.port or {"http": 80, "https": 443}[at.scheme])
        if same == (one.scheme, host, one.port) and _below(one.path, at.path.rstrip("/")):
            return True
    return SHA in listed.digests and not _inside(host)


def _is_name(host: str) -> bool:
    """Report whether each label is one that a registrar would take, or the host is an address."""
    if ":" in host:
        return True
    labels = host.split(".")
    sound = all(label and set(label) <= set(string.ascii_lowercase + string.digits + "-") for label in labels)
    edges = all(label[0] != "-" and label[-1] != "-" for label in labels) if sound else False
    numeric = labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]) is not None
    return sound and edges and (not numeric or _is_address(host))


def _is_address(host: str) -> bool:
    try:
        return str(ip_address(host)) == host
    except ValueError:
        return False


def _inside(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    if not _is_address(host):
        return False
    address = ip_address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or (address.packed[0] == 0 and address.version == 4)
    )


def _is_plain_path(path: str) -> bool:
    """Report whether a path says the same before and after everything that programs do to paths."""
    same = posixpath.normpath(path) == path and unquote(path) == path and not path.startswith("//")
    return path not in {"", "/"} and path.startswith("/") and same and set(path) <= PLAIN


def _below(path: str, place: str) -> bool:
    return place == "" or posixpath.commonpath([path, place]) == place


def path_oracle(text: str, listed: Allowed) -> bool:
    """Report whether a path is plain, and below what is listed."""
    if not _is_plain_path(text) or text.split("/")[1] in {"proc", "sys", "dev"}:
        return False
    return SHA in listed.digests or any(_below(text, place.rstrip("/")) for place in listed.paths)


def image_oracle(text: str, listed: Allowed) -> bool:
    """Report whether an image is where it says, after what github.com/distribution/reference does to it."""
    name, at, digest = text.partition("@")
    if not at or digest != f"sha256:{SHA}" or len(name) > 255:
        return False
    first, slash, rest = name.partition("/")
    if not slash or not (set(first) & {".", ":"} or first == "localhost"):
        return False  # a short name, which runtimes complete in their own ways
    host, colon, port = first.partition(":")
    if colon and not (port.isascii() and port.isdigit() and port[0] != "0" and int(port) <= 65535):
        return False
    lowered = host.lower()
    labels = lowered.split(".")
    numeric = labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]) is not None
    if not all(label and set(label) <= set(string.ascii_lowercase + string.digits + "-") for label in labels):
        return False
    if not host.isascii() or (numeric and not _is_address(lowered)):
        return False
    path, _, tag = rest.rpartition(":") if ":" in rest else (rest, "", "none")
    if re.fullmatch(r"[\w][\w.-]{0,127}", tag, re.ASCII) is None:
        return False
    parts = path.split("/")
    if not all(re.fullmatch(r"[a-z0-9]+(?:(?:[.]|_{1,2}|-+)[a-z0-9]+)*", part) for part in parts):
        return False
    registry = "docker.io" if first.lower() in {"docker.io", "index.docker.io"} else lowered + colon + port
    if registry == "docker.io" and len(parts) == 1:
        parts = ["library", *parts]
    whole = [registry, *parts]
    if any(whole[: len(place.split("/"))] == place.split("/") for place in listed.images):
        return True
    return SHA in listed.digests and not _inside(lowered)


ENDED: Counter[str] = Counter()


def same(kind: ArtifactKind, oracle: Callable[[str, Allowed], bool], text: str) -> None:
    """Let both decide, by what is listed and by the digest."""
    artifact = {
        ArtifactKind.URL: TaskArtifact(kind=kind, url=text, sha256=SHA),
        ArtifactKind.PRE_STAGED: TaskArtifact(kind=kind, path=text, sha256=SHA),
        ArtifactKind.IMAGE: TaskArtifact(kind=kind, ref=text, path="/kubelet"),
    }[kind]
    for way, listed in (("listed", LISTED), ("by digest", BY_DIGEST)):
        decided = forbidden(artifact, "kubelet.service", (), listed) is None
        assert decided == oracle(text, listed), (way, text)
        ENDED[f"{kind.value} {way} {'allowed' if decided else 'refused'}"] += 1


def fuzz(number: int, strategy: st.SearchStrategy[str], check: Callable[[str], None]) -> None:
    health = (HealthCheck.too_slow, HealthCheck.filter_too_much)
    quiet = settings(max_examples=number, deadline=None, database=None, derandomize=True, suppress_health_check=health)
    quiet(given(strategy)(check))()


@pytest.fixture(params=[FEW, pytest.param(MANY, marks=(pytest.mark.slow, pytest.mark.timeout(3600)))])
def number(request: pytest.FixtureRequest) -> Iterator[int]:
    ENDED.clear()
    yield int(request.param)
    print(dict(sorted(ENDED.items())))


def test_urls(number: int) -> None:
    fuzz(number, texts(_URLS), lambda text: same(ArtifactKind.URL, url_oracle, text))
    assert min(ENDED.values()) > number // 200, "neither side decides the same about everything"


def test_paths_and_what_the_kernel_opens(number: int, tmp_path: Path) -> None:
    def check(text: str) -> None:
        same(ArtifactKind.PRE_STAGED, path_oracle, text)
        if path_oracle(text, LISTED):
            found = os.path.realpath(f"{tmp_path}{text}")
            assert any(found.startswith(f"{tmp_path}{place.rstrip('/')}") for place in LISTED.paths), text

    fuzz(number, texts(_PATHS), check)
    assert min(ENDED.values()) > number // 200


def test_images(number: int) -> None:
    fuzz(number, texts(_IMAGES, f"@sha256:{SHA}"), lambda text: same(ArtifactKind.IMAGE, image_oracle, text))
    assert min(ENDED.values()) > number // 200
