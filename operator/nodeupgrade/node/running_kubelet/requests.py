"""Requests to the API server as the node's own kubelet.

Blocking, and standard library only: the lease keeper runs on the host, where the Kubernetes client is not installed.
"""

import contextlib
import http.client
import json
import os
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from nodeupgrade.api.json import Json
from nodeupgrade.api.limits import shorten
from nodeupgrade.errors import Transient
from nodeupgrade.kubelet.kubeconfig import Credentials, Material
from nodeupgrade.node.host.files.reading import read_file
from nodeupgrade.node.running_kubelet.kubelet import Answer
from nodeupgrade.text import BLANKS, parse_json

TIMEOUT_SECONDS = 5.0
STRATEGIC = "application/strategic-merge-patch+json"
_TOKEN = re.compile(rb"[\x21-\x7e]+")


class CredentialSource(Protocol):
    """The source of a kubelet's credentials."""

    def current(self) -> Credentials:
        """Return the credentials to use now, without a program.

        Raises:
            ValueError: there are none.
        """

    def rejected(self) -> bool:
        """Note that the API server rejected the credentials; report whether others may follow."""


@dataclass(frozen=True, slots=True)
class KubeconfigCredentials:
    """Implements CredentialSource with a kubeconfig; the files that it names are read at each request."""

    credentials: Credentials

    def current(self) -> Credentials:
        return self.credentials

    def rejected(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class KubeletIdentity:
    """Implements AsKubelet."""

    source: CredentialSource

    def read(self, path: str) -> Answer:
        return self._ask("GET", path, None)

    def try_patch(self, path: str, patch: Json) -> Answer:
        return self._ask("PATCH", f"{path}?dryRun=All", patch)

    def _ask(self, verb: str, path: str, patch: Json | None) -> Answer:
        try:
            return ask_as(self.source, verb, path, patch, STRATEGIC)
        except (OSError, ValueError) as error:
            raise Transient(f"cannot ask the API server as the kubelet: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLease:
    """The Lease of one node, with its kubelet's credentials. Every method raises OSError or ValueError on failure."""

    source: CredentialSource
    node: str  # name of the Node that the Lease belongs to

    def read(self) -> Json:
        return self._ask("GET", None)

    def replace(self, lease: Json) -> None:
        """Replace the Lease that was read; the API server rejects this if it changed in the meantime."""
        self._ask("PUT", lease)

    def _ask(self, verb: str, body: Json | None) -> Json:
        path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{quote(self.node)}"
        answer = ask_as(self.source, verb, path, body)
        if answer.status != http.client.OK:
            raise OSError(f"{verb} of the Lease ended with status {answer.status}: {shorten(answer.text, 200)!r}")
        lease: Json = parse_json(answer.text)
        return lease


def ask_as(
    source: CredentialSource, verb: str, path: str, body: Json | None, content_type: str = "application/json"
) -> Answer:
    """Send one request; if its credentials are rejected, send it once again with others.

    Raises:
        OSError, ValueError: there is no answer, or there are no credentials that can be used.
    """
    answer = ask(source.current(), verb, path, body, content_type)
    if answer.status == http.client.UNAUTHORIZED and source.rejected():
        return ask(source.current(), verb, path, body, content_type)
    return answer


def ask(
    credentials: Credentials, verb: str, path: str, body: Json | None, content_type: str = "application/json"
) -> Answer:
    """Send one request over a new connection, so that renewed certificates are used.

    Raises:
        OSError, ValueError: there is no answer, or the credentials cannot be used.
    """
    headers = {"Content-Type": content_type, **_authorization(credentials.token)}
    connection = _Connection(credentials)
    try:
        connection.request(verb, credentials.path + path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read().decode(errors="replace"))
    except http.client.HTTPException as error:
        raise OSError(f"the API server does not speak HTTP: {error!r}") from error
    finally:
        connection.close()


class _Connection(http.client.HTTPSConnection):
    """Verifies the server's certificate against the kubeconfig's ``tls-server-name``, if it has one."""

    def __init__(self, credentials: Credentials) -> None:
        self._tls = _tls(credentials)
        self._name = credentials.server_name or credentials.host
        super().__init__(credentials.host, credentials.port, timeout=TIMEOUT_SECONDS, context=self._tls)

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _tls(credentials: Credentials) -> ssl.SSLContext:
    authority = credentials.authority
    text = None if authority.data is None else authority.data.decode("ascii", errors="ignore")
    context = ssl.create_default_context(cafile=authority.path, cadata=text)
    # Old CA certificates lack extensions that Python 3.13 and later require; chain and name are still verified.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if credentials.certificate.given:
        with _file(credentials.certificate) as certificate, _file(credentials.key) as key:
            context.load_cert_chain(certificate or "", key)
    return context


@contextlib.contextmanager
def _file(material: Material) -> Iterator[str | None]:
    """Yield the path of a file with the material; data embedded in the kubeconfig never leaves memory."""
    if material.data is None:
        yield material.path
        return
    descriptor = os.memfd_create("kubelet-credentials")
    try:
        os.write(descriptor, material.data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _authorization(token: Material) -> dict[str, str]:
    if not token.given:
        return {}
    text = token.data if token.data is not None else read_file(Path(token.path or ""), follow=True)
    text = text.strip(BLANKS.encode())
    if not _TOKEN.fullmatch(text):  # an error of http.client would contain the token
        raise ValueError("the token contains invalid characters")
    return {"Authorization": f"Bearer {text.decode('ascii')}"}
