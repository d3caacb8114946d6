"""Asking the kubelet's own server: it alone gets the token."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from nodeupgrade.errors import Transient
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
from nodeupgrade.node.running_kubelet.kubelet import Answer, ServingEndpoint
from tests.builders.certificates import self_signed

ASKED: list[tuple[str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    """Answers with what was asked, and with which token."""

    def do_GET(self) -> None:
        ASKED.append((self.path, self.headers["Authorization"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"told")

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def kubelet(tmp_path: Path) -> HostKubelet:
    (tmp_path / "token").write_text("secret\n")
    return HostKubelet(ProcessTable(), token=tmp_path / "token")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return self_signed(tmp_path)


@pytest.fixture
def own(pair: tuple[Path, Path]) -> bytes:
    """The certificate that the server shows."""
    return pair[0].read_bytes()


@pytest.fixture
def port(pair: tuple[Path, Path]) -> Iterator[int]:
    ASKED.clear()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*pair)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_who_shows_the_certificate_on_disk_is_asked(kubelet: HostKubelet, own: bytes, port: int) -> None:
    where = ServingEndpoint(address="127.0.0.1", port=port, certificates=b"an old one\n" + own)

    assert kubelet.configz(where) == Answer(200, "told")
    assert ASKED == [("/configz", "Bearer secret")]


def test_nobody_else_hears_the_token(kubelet: HostKubelet, port: int, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = self_signed(tmp_path / "other")[0].read_bytes()

    with pytest.raises(Transient, match="does not show the certificate"):
        kubelet.configz(ServingEndpoint(address="127.0.0.1", port=port, certificates=other))
    assert ASKED == []


def test_without_a_token_nobody_is_asked(own: bytes, port: int, tmp_path: Path) -> None:
    where = ServingEndpoint(address="127.0.0.1", port=port, certificates=own)

    with pytest.raises(Transient, match="No such file"):
        HostKubelet(ProcessTable(), token=tmp_path / "nowhere").configz(where)
    assert ASKED == []
