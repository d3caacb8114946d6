"""Requests ``/configz`` from the kubelet's own server over TLS, with the service account's token.

A kubelet's serving certificate is usually self-signed. But it is on the node's disk, where only root can write: the
server that presents this very certificate is the kubelet. The token is never sent to any other server.
"""

import http.client
import re
import socket
import ssl
from pathlib import Path

from nodeupgrade.errors import Transient
from nodeupgrade.node.host.files.reading import read_file
from nodeupgrade.node.running_kubelet.kubelet import Answer, ServingEndpoint
from nodeupgrade.node.running_kubelet.requests import TIMEOUT_SECONDS
from nodeupgrade.text import trimmed

TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

LARGEST = 1024 * 1024
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def fetch_configz(where: ServingEndpoint, token: Path) -> Answer:
    """Return a kubelet's ``/configz``, its effective configuration.

    Raises:
        Transient: there is no answer, or the server does not present one of the known certificates.
    """
    try:
        bearer = trimmed(read_file(token, follow=True).decode("ascii"))
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
        raise OSError("the server does not show the certificate on the kubelet's disk")
    return connected
