"""Speaking to the API server as the node's kubelet, from a pod that sees the node's files below a directory."""

import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path, PurePosixPath

import pytest
import yaml

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.running_kubelet.kubelet import Answer
from nodeupgrade.node.wiring import host_from_pod
from tests.builders.certificates import self_signed

KUBECONFIG = PurePosixPath("/etc/kubernetes/kubelet.conf")
PATH = "/api/v1/nodes/node-a/status"


class Handler(BaseHTTPRequestHandler):
    """Answers with what was asked, and who asked."""

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.connection, ssl.SSLSocket)
        who = bool(self.connection.getpeercert())
        self.send_response(422)
        self.end_headers()
        asked = {"path": self.path, "type": self.headers["Content-Type"], "body": body, "certificate": who}
        self.wfile.write(json.dumps(asked).encode())

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return self_signed(tmp_path, "DNS:apiserver")


@pytest.fixture
def root(tmp_path: Path, pair: tuple[Path, Path]) -> Path:
    """A node's root directory, with the files of a kubelet whose certificate was renewed once."""
    root = tmp_path / "host"
    pki = root / "var/lib/kubelet/pki"
    pki.mkdir(parents=True)
    (root / "etc/kubernetes").mkdir(parents=True)
    crt, key = (path.read_bytes() for path in pair)
    (pki / "ca.crt").write_bytes("# Autorität\n".encode() + crt)
    (pki / "kubelet-client-2026.pem").write_bytes(crt + key)
    (pki / "kubelet-client-current.pem").symlink_to("/var/lib/kubelet/pki/kubelet-client-2026.pem")
    return root


@pytest.fixture
def port(pair: tuple[Path, Path]) -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(pair[0]))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*pair)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def write_kubeconfig(root: Path, port: int, **user: object) -> None:
    current = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    cluster = {"server": f"https://127.0.0.1:{port}/base", "tls-server-name": "apiserver"}
    document = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [
            {"name": "it", "cluster": {**cluster, "certificate-authority": "../../var/lib/kubelet/pki/ca.crt"}}
        ],
        "users": [{"name": "it", "user": user or {"client-certificate": current, "client-key": current}}],
    }
    (root / "etc/kubernetes/kubelet.conf").write_text(yaml.safe_dump(document))


def test_a_renewed_certificate_is_found_below_the_node_s_root(root: Path, port: int) -> None:
    write_kubeconfig(root, port)

    answer = host_from_pod(root).as_kubelet(KUBECONFIG, 1).try_patch(PATH, {"status": {}})

    assert answer == Answer(422, answer.text)
    assert json.loads(answer.text) == {
        "path": f"/base{PATH}?dryRun=All",
        "type": "application/strategic-merge-patch+json",
        "body": {"status": {}},
        "certificate": True,
    }


def test_what_cannot_be_used_is_said(root: Path, port: int) -> None:
    host = host_from_pod(root)
    with pytest.raises(StepFailed, match=r"there is no /etc/kubernetes/kubelet\.conf"):
        host.as_kubelet(KUBECONFIG, 1)
    write_kubeconfig(root, port, exec={"command": "aws"})
    with pytest.raises(StepFailed, match="user it has no credentials, and its exec has an unknown apiVersion"):
        host.as_kubelet(KUBECONFIG, 1)
    write_kubeconfig(root, port, token="a\nb")  # noqa: S106
    with pytest.raises(Transient, match="contains invalid characters"):
        host.as_kubelet(KUBECONFIG, 1).read(PATH)
    write_kubeconfig(root, port, **{"client-certificate": "/gone.pem", "client-key": "/gone.pem"})
    with pytest.raises(StepFailed, match=r"it names /gone\.pem, which does not exist"):
        host.as_kubelet(KUBECONFIG, 1)


def test_nobody_there_is_a_matter_of_time(root: Path, port: int) -> None:
    write_kubeconfig(root, 1)
    with pytest.raises(Transient, match="cannot ask the API server as the kubelet"):
        host_from_pod(root).as_kubelet(KUBECONFIG, 1).try_patch(PATH, {})
