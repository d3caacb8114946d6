"""The lease keeper renews what nobody else renews, with the kubelet's credentials, and depends on nothing."""

import base64
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from nodeupgrade.kubelet.kubeconfig import parse
from nodeupgrade.node.lease_keeper import process
from nodeupgrade.node.lease_keeper.process import LOOK_SECONDS, keep, renewed
from nodeupgrade.node.running_kubelet.configz import KubeletLease
from nodeupgrade.node.running_kubelet.requests import Given
from tests.unit.certificates import self_signed

NOW = datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
NODE = "node-a"


def lease(age: float, duration: int = 40) -> dict[str, Any]:
    moment = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": NODE, "leaseDurationSeconds": duration, "renewTime": moment}
    return {"metadata": {"name": NODE, "resourceVersion": "7"}, "spec": spec}


@pytest.mark.parametrize(
    ("age", "duration", "renews"), [(0, 40, False), (11.9, 40, False), (12, 40, True), (3, 10, True)]
)
def test_it_leaves_a_lease_alone_that_a_kubelet_renews(age: float, duration: int, renews: bool) -> None:
    before = lease(age, duration)

    after = renewed(before, NOW)

    assert (after is not None) is renews
    if after is not None:
        assert after["spec"]["renewTime"] == "2026-01-01T12:00:00.123456Z"
        assert after["metadata"] == before["metadata"], "the resource version guards against overwriting the kubelet"


# ── over the wire ───────────────────────────────────────────────────────────────────────────────────────────────────


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


@pytest.mark.parametrize("way", ["files", "inline", "token", "token file"])
def test_it_speaks_as_the_kubelet_does(server: ApiServer, pair: tuple[Path, Path], way: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    user = {
        "files": {"client-certificate": pair[0].name, "client-key": str(pair[1])},
        "inline": {"client-certificate-data": b64(pair[0]), "client-key-data": b64(pair[1])},
        "token": {"token": "secret"},
        "token file": {"tokenFile": str(token)},
    }[way]
    text = kubeconfig(server, pair, user, inline=way == "inline")
    api = KubeletLease(source=Given(parse(text, PurePosixPath(pair[0].parent))), node=NODE)

    assert api.read() == server.lease
    assert server.seen == [("GET", "Bearer secret" if "token" in way else None)]


def test_it_renews_again_and_again_and_ends(server: ApiServer, pair: tuple[Path, Path]) -> None:
    """An API server that is away for a while is no reason to end."""
    found = parse(kubeconfig(server, pair, {"token": "t"}), PurePosixPath(pair[0].parent))
    api = KubeletLease(source=Given(found), node=NODE)
    server.away = 2
    looks: list[float] = []

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 4:
            server.lease = lease(0)
        if len(looks) == 6:
            server.lease["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    count = keep(api, 8 * LOOK_SECONDS, sleep=sleep, monotonic=lambda: sum(looks))

    assert count == 2
    assert looks == [LOOK_SECONDS] * 8
    assert [verb for verb, _ in server.seen].count("PUT") == count
    assert datetime.fromisoformat(server.lease["spec"]["renewTime"]) > datetime.now(UTC) - timedelta(seconds=30)


def test_nobody_there_is_no_failure(pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = ["--kubeconfig", str(tmp_path / "none"), "--environment", str(tmp_path / "none.json")]
    arguments = ["lease_keeper", *files, "--node", NODE, "--seconds", "1"]
    monkeypatch.setattr("sys.argv", arguments)

    assert process.main() == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[", "not a kubeconfig"),
        (b"a: b", "not a kubeconfig"),
        (b"[]", "not a kubeconfig"),
        (b"current-context: x\ncontexts: []", "not a kubeconfig"),
        (b"{a: " * 2000, "not a kubeconfig"),
        (
            b"a: &a [x, x, x, x, x, x, x, x, x, x]\n"
            + b"".join(b"%c: &%c [%s]\n" % (n, n, b", ".join([b"*%c" % (n - 1)] * 10)) for n in b"bcdefgh"),
            "not a kubeconfig",
        ),
    ],
)
def test_what_is_no_kubeconfig_is_named(text: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(text, PurePosixPath("/"))


def test_what_is_no_program_is_no_credential(server: ApiServer, pair: tuple[Path, Path]) -> None:
    text = kubeconfig(server, pair, {"exec": "aws"})

    with pytest.raises(ValueError, match="neither a certificate nor a token"):
        parse(text, PurePosixPath("/"))


def test_a_server_without_tls_is_not_spoken_to(server: ApiServer, pair: tuple[Path, Path]) -> None:
    text = kubeconfig(server, pair, {"token": "t"}).replace(b"https://", b"http://")

    with pytest.raises(ValueError, match="not spoken to by https"):
        parse(text, PurePosixPath("/"))
