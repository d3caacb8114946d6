"""Tests for downloading an artifact, with a web server on loopback."""

import hashlib
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import Refused
from nodeupgrade.node.artifacts.download import download
from nodeupgrade.sources.download_addresses import AddressPolicy
from tests.builders.web_server import CONTENT, Answer, Server, sends, server

__all__ = ["server"]


DIGEST = Digest(hashlib.sha256(CONTENT).hexdigest())

HERE = AddressPolicy(listed=frozenset({ip_address("127.0.0.1")}))
"""What an administrator lists who has a server on loopback."""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "kubelet"
    assert {p.name for p in tmp_path.iterdir()} <= {"kubelet"}, "nothing half-fetched is left"


def test_the_file_appears_checked_and_executable(server: Server, target: Path) -> None:
    download(server.url, target, DIGEST, HERE)
    download(server.url, target, DIGEST, HERE)

    assert target.read_bytes() == CONTENT
    assert target.stat().st_mode & 0o777 == 0o755
    assert server.requests == 1, "a right file is not fetched again"


def test_another_content_is_refused(server: Server, target: Path) -> None:
    server.answer = sends(b"something else")
    with pytest.raises(Refused, match=DIGEST) as caught:
        download(server.url, target, DIGEST, HERE)
    assert caught.value.finding.reason is Reason.DIGEST_MISMATCH
    assert hashlib.sha256(b"something else").hexdigest() not in str(caught.value), "nobody learns what is there"
    assert (target.exists(), server.requests) == (False, 1)


@pytest.mark.parametrize(
    ("answer", "requests", "why"),
    [
        (sends(b"", status=404), 1, "404"),
        (sends(b"", status=503), 3, "503"),
        (sends(CONTENT[:100], length=len(CONTENT)), 3, "ended after|IncompleteRead"),
        (sends(CONTENT * 100), 1, "larger than"),
        (sends(b"", status=302, location="file:///etc/passwd"), 1, "302|not allowed"),
    ],
    ids=["missing", "busy for ever", "cut off", "too large", "redirect to a file"],
)
def test_what_cannot_be_fetched_is_refused(
    server: Server, target: Path, answer: Answer, requests: int, why: str
) -> None:
    server.answer = answer
    with pytest.raises(Refused, match=why) as caught:
        download(f"{server.url}?token=secret", target, DIGEST, HERE, limit=100_000, attempts=3, pause=0)
    assert caught.value.finding.reason is Reason.ARTIFACT_UNAVAILABLE
    assert "secret" not in str(caught.value)
    assert (target.exists(), server.requests) == (False, requests)


def test_a_server_that_recovers_is_asked_again(server: Server, target: Path) -> None:
    server.answer = lambda request, number: (sends(b"", status=503) if number < 3 else sends(CONTENT))(request, number)
    download(server.url, target, DIGEST, HERE, pause=0)
    assert target.read_bytes() == CONTENT


def trickles(first: bytes, byte: bytes) -> Answer:
    """Never be silent for long, and never be done."""

    def answer(request: BaseHTTPRequestHandler, _number: int) -> None:
        with suppress(ConnectionError):
            request.wfile.write(first)
            for _ in range(500):
                request.wfile.write(byte)
                time.sleep(0.02)

    return answer


@pytest.mark.parametrize(
    ("first", "byte"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 7000\r\n\r\n", b"k"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nk\r\n"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"k"),
        (b"HTTP/1.1 ", b"k"),
    ],
    ids=["body", "chunks", "header", "status"],
)
def test_a_server_that_trickles_is_given_up(server: Server, target: Path, first: bytes, byte: bytes) -> None:
    server.answer = trickles(first, byte)
    began = time.monotonic()
    with pytest.raises(Refused, match=r"it was not complete after 0\.2 s") as caught:
        download(server.url, target, DIGEST, HERE, pause=0, total=0.2)
    assert caught.value.finding.reason is Reason.ARTIFACT_UNAVAILABLE
    assert time.monotonic() - began < 5


def test_what_comes_with_a_redirect_is_not_read(server: Server, target: Path) -> None:
    def answer(request: BaseHTTPRequestHandler, number: int) -> None:
        first = f"HTTP/1.1 302 Found\r\nLocation: {server.url}\r\n\r\n".encode()
        (trickles(first, b"k" * 1000) if number == 1 else sends(CONTENT))(request, number)

    server.answer = answer
    download(server.url, target, DIGEST, HERE, pause=0, total=5)
    assert target.read_bytes() == CONTENT


def test_a_name_with_many_addresses_that_do_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, target: Path
) -> None:
    resolving_to = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (f"127.0.1.{last}", 80)) for last in range(250)]

    def silent(*_arguments: object) -> socket.socket:
        time.sleep(0.02)
        raise TimeoutError("timed out")

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_options: resolving_to)
    monkeypatch.setattr(socket, "create_connection", silent)
    reach = AddressPolicy(listed=frozenset(ip_address(place[0]) for *_, place in resolving_to))
    with pytest.raises(Refused, match=r"it was not complete after 0\.1 s"):
        download("http://kubelets.example/kubelet", target, DIGEST, reach, pause=0, total=0.1)


def test_only_the_web_is_fetched_from(target: Path) -> None:
    with pytest.raises(Refused, match="neither an http nor an https"):
        download("file:///etc/passwd", target, DIGEST, HERE)
    with pytest.raises(Refused, match=r"127\.0\.0\.1:1/"):
        download("http://127.0.0.1:1/", target, DIGEST, HERE, attempts=2, pause=0)


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Let names resolve to these addresses, another one each time; return the names that were asked for."""
    asked, original = list[str](), socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".example"):
            asked.append(host)
            host = addresses[min(len(asked), len(addresses)) - 1]
        return original(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setenv("no_proxy", "*")
    return asked


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "127.0.0.2", "169.254.169.254", "::1", "::ffff:127.0.0.1", "10.0.0.1", "::ffff:10.0.0.1"),
        "64:ff9b::a00:1",
    ],
)
def test_a_name_does_not_lead_to_what_is_the_nodes_own(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    resolving(monkeypatch, address)
    url = server.url.replace("127.0.0.1", "mirror.example")
    reach = AddressPolicy(api_servers=frozenset({ip_address("10.0.0.1")}))
    with pytest.raises(Refused, match=r"its address .* is (loopback|link-local|an API server's)") as caught:
        download(url, target, DIGEST, reach, attempts=2, pause=0)
    assert caught.value.finding.reason is Reason.ARTIFACT_UNAVAILABLE
    assert server.requests == 0


def test_what_a_server_says_that_speaks_no_http_is_not_told(target: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as threads:

        def greet() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"220 secret banner\r\n")
                connection.recv(1000)

        greeted = threads.submit(greet)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/kubelet"
        with pytest.raises(Refused, match="does not answer in HTTP") as caught:
            download(url, target, DIGEST, HERE, attempts=1)
        greeted.result(timeout=30)
    assert "secret" not in str(caught.value)


def test_only_the_address_that_was_judged_is_connected_to(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that resolves to something else a moment later is of no use."""
    asked = resolving(monkeypatch, "127.0.0.1", "169.254.169.254")
    download(server.url.replace("127.0.0.1", "mirror.example"), target, DIGEST, HERE)
    assert (target.read_bytes(), asked) == (CONTENT, ["mirror.example"])


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest",
        "http://127.0.0.2/k",
        "http://inner.example/k",
        "http://a@127.0.0.1/k",
        "http://127.1/",
    ],
)
def test_no_redirect_leads_there(server: Server, target: Path, monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    resolving(monkeypatch, "169.254.169.254")
    server.answer = sends(b"", status=302, location=location)
    with pytest.raises(Refused) as caught:
        download(server.url, target, DIGEST, HERE, attempts=2, pause=0)
    assert caught.value.finding.reason is Reason.ARTIFACT_UNAVAILABLE
    assert server.requests == 1


def test_the_nodes_own_address_is_asked_only_if_it_is_listed(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeupgrade.sources.download_addresses.internal_address_kind", lambda _address: None)
    with pytest.raises(Refused, match="the node's own"):
        download(server.url, target, DIGEST, AddressPolicy(), attempts=1)
    assert server.requests == 0


def test_a_proxy_is_asked_and_told_no_internal_address(
    server: Server, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy's own address is the environment's business; which addresses stand in URLs is ours."""
    monkeypatch.delenv("no_proxy")
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/kubelet"))
    download("http://mirror.example/kubelet", target, DIGEST, AddressPolicy())
    assert target.read_bytes() == CONTENT
    with pytest.raises(Refused, match="link-local"):
        download("http://169.254.169.254/latest", target.with_name("other"), DIGEST, AddressPolicy(), attempts=1)
    assert server.requests == 1
