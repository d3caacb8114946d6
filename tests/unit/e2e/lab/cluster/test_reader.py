"""Where the lab's reader finds objects, and that it asks again where the API server cannot answer now."""

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from e2e.lab.cluster import reader
from e2e.lab.cluster.pki import Authority
from e2e.lab.cluster.reader import Object, Reader, path
from e2e.lab.errors import LabError


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "expected"),
    [
        ("nodes", "", "", "/api/v1/nodes"),
        ("nodes", "", "node1", "/api/v1/nodes/node1"),
        ("pods", "", "", "/api/v1/pods"),
        ("pods", "web", "", "/api/v1/namespaces/web/pods"),
        ("leases", "kube-node-lease", "node1", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node1"),
        ("nodeupgrades", "", "to 1.33", "/apis/nodeupgrade.dev/v1alpha1/nodeupgrades/to%201.33"),
    ],
)
def test_each_object_has_its_path(resource: str, namespace: str, name: str, expected: str) -> None:
    assert path(resource, namespace, name) == expected


class Served(Reader):
    """A reader of an API server that gives these answers."""

    answers: ClassVar[list[tuple[int, bytes]]] = []

    def _answer(self, where: str, timeout: float, method: str = "GET", body: Object | None = None) -> tuple[int, bytes]:
        return self.answers.pop(0)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Served:
    monkeypatch.setattr(reader, "AGAIN_SECONDS", 0.0)
    return Served(tmp_path, Authority(tmp_path))


def test_it_asks_a_busy_api_server_again(served: Served) -> None:
    served.answers[:] = [(429, b"storage is (re)initializing"), (500, b"etcdserver: request timed out"), (200, b"{}")]
    assert served.get("nodes", "node1") == {}
    assert served.answers == []


def test_but_not_one_that_has_answered(served: Served) -> None:
    served.answers[:] = [(404, b"no such node"), (200, b"{}")]
    with pytest.raises(LabError, match="404 to /api/v1/nodes/node1: no such node"):
        served.get("nodes", "node1")


def test_nor_for_ever(served: Served) -> None:
    served.answers[:] = [(429, b"busy")]
    with pytest.raises(LabError, match="429"):
        served.get("nodes", "node1", timeout=0)


class _Served(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: ClassVar[list[object]] = []
    asked: ClassVar[list[tuple[str, str | None, bytes]]] = []
    hangs_up: ClassVar[bool] = False

    def setup(self) -> None:
        super().setup()
        self.connections.append(self.client_address)

    def do_GET(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.asked.append((self.command, self.headers["Content-Type"], content))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = self.hangs_up  # without having said so

    do_PATCH = do_GET  # noqa: N815 - named as http.server wants

    def log_message(self, *_: object) -> None:
        pass


class _Plain(Reader):
    """A reader that needs neither a namespace nor certificates."""

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", int(self.host), timeout=timeout)
        connection.connect()
        connection.auto_open = 0
        return connection


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[_Plain]:
    _Served.connections, _Served.asked, _Served.hangs_up = [], [], False
    with ThreadingHTTPServer(("127.0.0.1", 0), _Served) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        made = _Plain(tmp_path, Authority(tmp_path), host=str(server.server_port))
        yield made
        for connection, _ in reader._kept.values():
            connection.close()
        reader._kept.clear()
        server.shutdown()
        thread.join()


def test_a_poll_connects_once(plain: _Plain) -> None:
    for _ in range(3):
        assert plain.get("nodes", "node1") == {}

    assert len(_Served.connections) == 1


def test_it_connects_again_where_the_connection_was_closed(plain: _Plain) -> None:
    _Served.hangs_up = True
    for _ in range(3):
        assert plain.get("nodes", "node1") == {}

    assert len(_Served.connections) == 3


def test_it_connects_again_after_a_pause(plain: _Plain, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.get("nodes", "node1")
    monkeypatch.setattr(reader, "KEPT_SECONDS", 0.0)
    plain.get("nodes", "node1")

    assert len(_Served.connections) == 2


def test_what_changes_something_is_sent_once_on_a_connection_of_its_own(plain: _Plain) -> None:
    plain.get("nodes", "node1")
    plain.patch("pods", "web", {"a": 1}, namespace="workload")

    assert len(_Served.connections) == 2
    assert _Served.asked[1] == ("PATCH", "application/strategic-merge-patch+json", b'{"a": 1}')


def test_other_threads_keep_no_connection(plain: _Plain) -> None:
    thread = threading.Thread(target=lambda: [plain.get("nodes", "node1") for _ in range(2)])
    thread.start()
    thread.join()

    assert len(_Served.connections) == 2
