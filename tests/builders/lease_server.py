"""An API server with one Lease, and kubeconfig files for it."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.certificates import self_signed

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
NODE = "node-a"


def lease(age: float, duration: int = 40) -> dict[str, Any]:
    moment = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": NODE, "leaseDurationSeconds": duration, "renewTime": moment}
    return {"metadata": {"name": NODE, "resourceVersion": "7"}, "spec": spec}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that vouches for itself, and its key: authority, server and client at once."""
    return self_signed(tmp_path_factory.mktemp("pki"), "DNS:apiserver")


class ApiServer(ThreadingHTTPServer):
    """Holds one Lease, for those who show a certificate or the token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lease = lease(0)
        self.away = 0
        self.seen: list[tuple[str, str | None]] = []
        self.unknown: set[str | None] = set()  # what was shown by those who are unknown by now


class Handler(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self._answer("GET", self.server.lease)

    def do_PUT(self) -> None:
        self.server.lease = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer("PUT", self.server.lease)

    def _answer(self, verb: str, document: object) -> None:
        assert self.path == "/base/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-a"
        self.server.seen.append((verb, self.headers["Authorization"]))
        self.server.away -= 1
        known = self.headers["Authorization"] not in self.server.unknown
        self.send_response(503 if self.server.away >= 0 else 200 if known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def server(pair: tuple[Path, Path]) -> Iterator[ApiServer]:
    server = ApiServer()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=pair[0])
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(*pair)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def kubeconfig(
    server: ApiServer, pair: tuple[Path, Path], user: Mapping[str, object], *, inline: bool = False
) -> bytes:
    cluster = {"server": f"https://127.0.0.1:{server.server_port}/base", "tls-server-name": "apiserver"}
    cluster |= {"certificate-authority-data": b64(pair[0])} if inline else {"certificate-authority": pair[0].name}
    return yaml.safe_dump({
        "current-context": "main",
        "contexts": [{"name": "other", "context": {}}, {"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": dict(user)}],
    }).encode()  # fmt: skip


def b64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
