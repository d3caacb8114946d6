"""Read objects from a lab's API server as its administrator: what kubectl would print, without starting a kubectl.

For what tests ask, or write, again and again, since a start of kubectl takes a tenth of a second of a processor.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from e2e.lab import naming
from e2e.lab.cluster.pki import Authority
from e2e.lab.errors import LabError
from e2e.lab.host import network
from e2e.lab.process import patience

Object = dict[str, Any]

API_PATHS = {
    "certificatesigningrequests": "apis/certificates.k8s.io/v1",
    "configmaps": "api/v1",
    "deployments": "apis/apps/v1",
    "endpointslices": "apis/discovery.k8s.io/v1",
    "events": "api/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "namespaces": "api/v1",
    "nodes": "api/v1",
    "nodeupgrades": "apis/nodeupgrade.dev/v1alpha1",
    "nodeupgradetasks": "apis/nodeupgrade.dev/v1alpha1",
    "pods": "api/v1",
    "serviceaccounts": "api/v1",
}
"""The API group and version of each resource that is read."""

BUSY = frozenset({
    http.HTTPStatus.TOO_MANY_REQUESTS, http.HTTPStatus.INTERNAL_SERVER_ERROR, http.HTTPStatus.SERVICE_UNAVAILABLE,
    http.HTTPStatus.GATEWAY_TIMEOUT,
})  # fmt: skip
"""Answers of an API server that cannot answer now, as right after a CRD was created or where etcd is slow."""
AGAIN_SECONDS = 1.0
"""What API servers say in Retry-After."""
KEPT_SECONDS = 5.0
"""How long a connection may have been idle: a poll asks far sooner."""
_kept: "dict[Reader, tuple[http.client.HTTPConnection, float]]" = {}
"""The main thread's connections, with the time of their last answer: to connect costs more than what a poll asks."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads from the API server in a network namespace."""

    namespace: Path  # file of the namespace
    authority: Authority  # where the administrator's certificate is
    host: str = naming.CONTROL_PLANE_ADDRESS  # address of the API server

    def get(self, resource: str, name: str, *, namespace: str = "", timeout: float = 60) -> Object:
        """Return one object.

        Raises:
            LabError: there is none, the API server refuses, or does not answer within ``timeout`` seconds (times
                ``patience``).
        """
        return self._read(path(resource, namespace, name), timeout)

    def list(
        self, resource: str, *, namespace: str = "", labels: str = "", fields: str = "", timeout: float = 60
    ) -> list[Object]:
        """Return the objects of a namespace (by default, of all) that both selectors select (by default, all).

        Unlike those of ``get``, they lack ``apiVersion`` and ``kind``.

        Raises:
            LabError: the API server refuses, or does not answer within ``timeout`` seconds (times ``patience``).
        """
        query = urlencode({"labelSelector": labels, "fieldSelector": fields})
        items: list[Object] = self._read(f"{path(resource, namespace)}?{query}", timeout)["items"]
        return items

    def create(self, resource: str, body: Object, *, namespace: str, timeout: float = 60) -> None:
        """Create an object.

        Raises:
            LabError: the API server refuses, or does not answer within ``timeout`` seconds (times ``patience``).
        """
        _expect(http.HTTPStatus.CREATED, where := path(resource, namespace), self._answer(where, timeout, "POST", body))

    def delete(self, resource: str, name: str, *, namespace: str, timeout: float = 60) -> None:
        """Delete an object, and let it end as its grace period says.

        Raises:
            LabError: there is none, the API server refuses, or does not answer within ``timeout`` seconds (times
                ``patience``).
        """
        where = path(resource, namespace, name)
        _expect(http.HTTPStatus.OK, where, self._answer(where, timeout, "DELETE"))

    def patch(self, resource: str, name: str, body: Object, *, namespace: str, timeout: float = 60) -> None:
        """Merge what is given into an object, strategically.

        Raises:
            LabError: there is none, the API server refuses, or does not answer within ``timeout`` seconds (times
                ``patience``).
        """
        where = path(resource, namespace, name)
        _expect(http.HTTPStatus.OK, where, self._answer(where, timeout, "PATCH", body))

    def ready(self, timeout: float = 10) -> bool:
        """Report whether the API server says that it is ready."""
        return self._answer("/readyz", timeout) == (http.HTTPStatus.OK, b"ok")

    def _read(self, where: str, timeout: float) -> Object:
        deadline = time.monotonic() + timeout * patience()
        while (answer := self._answer(where, timeout))[0] in BUSY and time.monotonic() < deadline:
            time.sleep(AGAIN_SECONDS)
        found: Object = json.loads(_expect(http.HTTPStatus.OK, where, answer))
        return found

    def _answer(self, where: str, timeout: float, method: str = "GET", body: Object | None = None) -> tuple[int, bytes]:
        timeout *= patience()
        question = (method, where, body, timeout)
        try:
            if method == "GET" and (kept := self._take()) is not None:
                # The API server may have closed it, or been restarted; nothing but a read may be asked for twice.
                with suppress(ConnectionError, ssl.SSLError, http.client.HTTPException):
                    return self._asked(kept, *question)
            return self._asked(self._connection(timeout), *question)
        except (OSError, http.client.HTTPException) as error:
            raise LabError(
                f"cannot {method} {where} at the API server: {str(error) or type(error).__name__}"
            ) from error

    def _take(self) -> http.client.HTTPConnection | None:
        """Return the connection that was used a moment ago, if there is one."""
        if threading.current_thread() is not threading.main_thread():
            return None
        connection, used = _kept.pop(self, (None, 0.0))
        if connection is not None and time.monotonic() - used > KEPT_SECONDS:
            connection.close()
            return None
        return connection

    def _asked(
        self, connection: http.client.HTTPConnection, method: str, where: str, body: Object | None, timeout: float
    ) -> tuple[int, bytes]:
        """Ask, and keep the connection for the next question."""
        sent, headers = None, {"Accept": "application/json"}
        if body is not None:
            kind = "strategic-merge-patch+json" if method == "PATCH" else "json"
            sent, headers = json.dumps(body), {**headers, "Content-Type": f"application/{kind}"}
        kept = False
        try:
            connection.sock.settimeout(timeout)
            connection.request(method, where, body=sent, headers=headers)
            answer = connection.getresponse()
            found = answer.status, answer.read()
            kept = connection.sock is not None and threading.current_thread() is threading.main_thread()
        finally:
            if not kept:
                connection.close()
        if kept:
            if self in _kept:  # it was no question that may be asked twice
                _kept[self][0].close()
            _kept[self] = connection, time.monotonic()
        return found

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        files = self.authority.directory
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trust.load_verify_locations(self.authority.certificate)
        trust.load_cert_chain(files / "admin.crt", files / "admin.key")
        host, port = self.host, naming.API_PORT
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=trust)
        connection.auto_open = 0  # it would connect outside the namespace
        connected = _connected(self.namespace, (host, port), timeout)
        connection.sock = trust.wrap_socket(connected, server_hostname=host)
        return connection


def _expect(wanted: int, where: str, answer: tuple[int, bytes]) -> bytes:
    status, body = answer
    if status != wanted:
        raise LabError(f"the API server answered {status} to {where}: {body.decode(errors='replace')[:2000]}")
    return body


def path(resource: str, namespace: str = "", name: str = "") -> str:
    """Return the path of an object, or of all objects of a namespace (or of the cluster) if it has no name."""
    within = ("namespaces", namespace) if namespace else ()
    return "/" + "/".join(quote(part) for part in (API_PATHS[resource], *within, resource, name) if part)


def _connected(namespace: Path, address: tuple[str, int], timeout: float) -> socket.socket:
    """Connect from within a network namespace, in a thread that nobody else uses: a thread keeps where it has been."""
    with ThreadPoolExecutor(max_workers=1) as inside:
        return inside.submit(_connect, namespace, address, timeout).result()


def _connect(namespace: Path, address: tuple[str, int], timeout: float) -> socket.socket:
    network.enter(namespace)
    return socket.create_connection(address, timeout=timeout)
