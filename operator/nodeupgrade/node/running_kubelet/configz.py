"""Requests for ``/configz`` to the kubelet's own server over TLS, with the service account's token.

A kubelet's serving certificate is usually self-signed, so no CA vouches for it. But it is on the node's disk, where
only root can write: a server that presents this very certificate, and so has its key, is the kubelet. The token is
never sent to any other server.
"""

import http.client
import json
import re
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from nodeupgrade.api.json import Json
from nodeupgrade.api.limits import shorten
from nodeupgrade.errors import Transient
from nodeupgrade.node.running_kubelet.kubelet import Answer, ServingEndpoint
from nodeupgrade.node.running_kubelet.requests import TIMEOUT_SECONDS, Source, ask_as

TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

LARGEST = 1024 * 1024
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def configz(where: ServingEndpoint, token: Path) -> Answer:
    """Return a kubelet's ``/configz``, its effective configuration.

    Raises:
        Transient: there is no answer, or the server does not present one of the known certificates.
    """
    try:
        bearer = token.read_text(encoding="ascii").strip()
        with _connected(where) as connected:
            connection = http.client.HTTPConnection(where.address, where.port)
            connection.sock = connected
            connection.request("GET", "/configz", headers={"Authorization": f"Bearer {bearer}"})
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(LARGEST).decode(errors="replace"))
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Transient(f"cannot ask the kubelet at {where.address}:{where.port} because {error}") from error


def _connected(where: ServingEndpoint) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the certificate itself is compared below, before anything is sent
    connected = context.wrap_socket(socket.create_connection((where.address, where.port), TIMEOUT_SECONDS))
    known = [
        ssl.PEM_cert_to_DER_cert(certificate)
        for certificate in _CERTIFICATE.findall(where.certificates.decode("ascii", "ignore"))
    ]
    if connected.getpeercert(binary_form=True) not in known:
        connected.close()
        raise OSError("who answers there does not show the certificate that the kubelet keeps on disk")
    return connected


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletLease:
    """The Lease of one node, with its kubelet's credentials. Every method raises OSError or ValueError on failure."""

    source: Source
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
        lease: Json = json.loads(answer.text)
        return lease
