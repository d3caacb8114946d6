"""A real kube-apiserver over a real etcd, on loopback, without nodes or controllers."""

import base64
import contextlib
import functools
import json
import secrets
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.binaries.components import resolve
from e2e.lab.cluster.controlplane import SPARING, etcd_binary
from nodeupgrade.api.json import Json

VERSION = "1.33.13"
READY_SECONDS = 300
LOWEST_PORT = 10_000

OPERATOR = "system:serviceaccount:nodeupgrade-system:nodeupgrade-operator"
AGENT = "system:serviceaccount:nodeupgrade-system:nodeupgrade-agent"
USERS = {
    "admin": ("admin", "system:masters"),
    "operator": (OPERATOR, ""),
    "agent": (AGENT, ""),
    "nobody": ("nobody", ""),
}


@dataclass(frozen=True)
class ApiServer:
    """A running API server; one kubeconfig for each of USERS."""

    directory: Path
    kubectl_binary: Path
    port: int
    etcd_port: int

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.directory / f"{user}.kubeconfig"

    def agent_kubeconfig(self, node: str | None) -> Path:
        """Speak as an agent whose pod is on a node, with a token such as its kubelet gets; or as one of no pod."""
        return self._account_kubeconfig("agent", None if node is None else f"agent-{node}", node or "")

    def operator_kubeconfig(self, pod: str) -> Path:
        """Speak as the operator in a pod, with a token such as its kubelet gets."""
        return self._account_kubeconfig("operator", pod, "somewhere")

    def _account_kubeconfig(self, user: str, pod: str | None, node: str) -> Path:
        account, bound = f"nodeupgrade-{user}", tuple[str, ...]()
        if pod is not None:
            spec: Json = {"nodeName": node, "serviceAccountName": account}
            spec |= {"containers": [{"name": "main", "image": "pause"}]}
            metadata = {"name": pod, "namespace": "nodeupgrade-system"}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            assert self.kubectl_as("", "create", "-f", "-", stdin=json.dumps(body)) == ""
            bound = "--bound-object-kind=Pod", f"--bound-object-name={pod}"
        token = self.kubectl("create", "token", account, "--namespace=nodeupgrade-system", *bound)
        config = json.loads(self.kubeconfig(user).read_text())
        config["users"][0]["user"] = {"token": token.strip()}
        path = self.directory / f"{user}-as-{pod}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as admin and return what it prints."""
        argv = [str(self.kubectl_binary), f"--kubeconfig={self.kubeconfig()}", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def compact(self) -> None:
        """Make etcd forget everything but the present."""
        newest = self._etcd("kv/range", {"key": "AA=="})["header"]["revision"]
        self._etcd("kv/compaction", {"revision": newest, "physical": True})

    def put(self, objects: Mapping[str, Json]) -> None:
        """Store objects by their keys in etcd, without asking the API server, which hears of them by its watch."""
        puts = [
            {"request_put": {"key": _base64(key.encode()), "value": _base64(json.dumps(body).encode())}}
            for key, body in objects.items()
        ]
        self._etcd("kv/txn", {"success": puts})

    def _etcd(self, call: str, body: Json) -> Json:
        request = urllib.request.Request(f"http://127.0.0.1:{self.etcd_port}/v3/{call}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - loopback
            found: Json = json.load(answer)
            return found

    def kubectl_as(self, user: str, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as a kubelet (empty: as admin); return what the API server objects to, empty if nothing."""
        identity = [f"--as={user}", "--as-group=system:nodes"] if user else []
        argv = [str(self.kubectl_binary), f"--kubeconfig={self.kubeconfig()}", *identity, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=240, input=stdin)
        return done.stderr if done.returncode else ""

    def patch(self, path: str, body: Json, kubelet: str = "") -> tuple[int, str]:
        """Send a strategic merge patch as a node's kubelet (empty: as admin); return status code and answer.

        For what is asked again and again: a start of kubectl takes a tenth of a second of a processor.
        """
        headers = {"Authorization": "Bearer admin-token", "Content-Type": "application/strategic-merge-patch+json"}
        if kubelet:
            headers |= {"Impersonate-User": f"system:node:{kubelet}", "Impersonate-Group": "system:nodes"}
        return self._answer(path, headers, "PATCH", json.dumps(body).encode())

    def read(self, path: str) -> Json:
        """Return an object, as admin."""
        status, text = self._answer(path, {"Authorization": "Bearer admin-token"})
        assert status == 200, text
        found: Json = json.loads(text)
        return found

    def _answer(
        self, path: str, headers: Mapping[str, str], method: str = "GET", body: bytes | None = None
    ) -> tuple[int, str]:
        address = f"https://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(address, data=body, headers=dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, context=unverified(), timeout=240) as answer:  # noqa: S310 - loopback
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()


@contextmanager
def running(
    *, etcd_flags: Sequence[str] = (), apiserver_flags: Sequence[str] = (), where: Path | None = None
) -> Iterator[ApiServer]:
    """Start both, wait until the API server is ready, and stop both in the end; ``where`` is for their data."""
    etcd, binary = etcd_binary(), resolve("kube-apiserver", VERSION)
    if etcd is None:
        raise FileNotFoundError("cannot find etcd; install the package etcd-server")
    with tempfile.TemporaryDirectory(prefix="nodeupgrade-apiserver-", dir=where) as name:
        directory, (client, peer, port) = Path(name), free_ports(3)
        write_credentials(directory, port)
        commands = [
            [*etcd_command(Path(etcd), directory, client, peer), *etcd_flags],
            [*apiserver_command(binary, directory, client, port), *apiserver_flags],
        ]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            processes += [start(argv, directory / f"{Path(argv[0]).name}.log") for argv in commands]
            wait_until_ready(directory, port, processes)
            yield ApiServer(directory, resolve("kubectl", VERSION), port, client)
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                try:
                    process.wait(timeout=20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def start(argv: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a process that dies with us, should we be killed."""
    with log.open("wb") as output:
        return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *SPARING, *argv], stdout=output, stderr=output)


def etcd_command(binary: Path, directory: Path, client: int, peer: int) -> list[str]:
    here, there = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        str(binary),
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={here}",
        f"--advertise-client-urls={here}",
        f"--listen-peer-urls={there}",
        f"--initial-advertise-peer-urls={there}",
        f"--initial-cluster=default={there}",
    ]


def apiserver_command(binary: Path, directory: Path, etcd: int, port: int) -> list[str]:
    return [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory / 'certificates'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={directory / 'service-account.key'}",
        f"--service-account-signing-key-file={directory / 'service-account.key'}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        # Nobody makes service accounts' tokens here; the users of the token file stand for them.
        "--disable-admission-plugins=ServiceAccount",
    ]


def write_credentials(directory: Path, port: int) -> None:
    key = ["openssl", "genrsa", "-out", str(directory / "service-account.key"), "2048"]
    subprocess.run(key, capture_output=True, check=True, timeout=240)
    rows = [f'{user}-token,{name},{user},"{group}"' for user, (name, group) in USERS.items()]
    (directory / "tokens.csv").write_text("\n".join(rows) + "\n")
    for user in USERS:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": user}}],
            "users": [{"name": user, "user": {"token": f"{user}-token"}}],
            # It signs its own certificate, on loopback, for the minutes it lives.
            "clusters": [
                {"name": "it", "cluster": {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}}
            ],
        }
        (directory / f"{user}.kubeconfig").write_text(json.dumps(config))


def wait_until_ready(directory: Path, port: int, processes: list[subprocess.Popen[bytes]]) -> None:
    request = urllib.request.Request(
        f"https://127.0.0.1:{port}/readyz", headers={"Authorization": "Bearer admin-token"}
    )
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if any(process.poll() is not None for process in processes):
            break
        try:
            with urllib.request.urlopen(request, context=unverified(), timeout=2):  # noqa: S310
                return
        except OSError:
            time.sleep(0.2)
    logs = "\n".join(log.read_text(errors="replace")[-2000:] for log in directory.glob("*.log"))
    raise RuntimeError(f"the API server did not become ready:\n{logs}")


@functools.cache
def unverified() -> ssl.SSLContext:
    """What trusts any server; made once, for to load the machine's authorities takes as long as a request."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on.

    They are below those that Linux gives to connections, and to others who ask for any port: of these, one may be taken
    before its server listens on it.
    """
    above = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    free: list[int] = []
    while len(free) < count:
        port = LOWEST_PORT + secrets.randbelow(max(above - LOWEST_PORT, 1000))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            if port not in free:
                free.append(port)
    return free
