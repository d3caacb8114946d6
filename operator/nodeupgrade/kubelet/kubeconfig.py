"""The credentials in a kubeconfig, as far as a kubelet's has any: certificates or a token, in files or in place."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import yaml

from nodeupgrade.api.yaml import read_one


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Something that is either in a file or written out in the kubeconfig."""

    path: str | None = None
    data: bytes | None = None

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return self.path is not None or self.data is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Where the API server is, and how it is spoken to.

    Attributes:
        server_name: name to expect in the server's certificate, if it is not the host.
        authority: certificates that may vouch for the server; without them those of the system may.
        token: path or text of a bearer token.
    """

    host: str
    port: int
    path: str
    server_name: str | None
    authority: Material
    certificate: Material
    key: Material
    token: Material


def parse(text: bytes, directory: PurePosixPath) -> Credentials:
    """Read the current context of a kubeconfig.

    Args:
        directory: where it lies; relative paths in it are meant from there.

    Raises:
        ValueError: it is not a kubeconfig, or asks for a way of identifying that needs another program.
    """
    try:
        document = read_one(text)
        context = _named(document, "contexts", "context", document["current-context"])
        cluster = _named(document, "clusters", "cluster", context["cluster"])
        user = _named(document, "users", "user", context["user"])
        server = urlsplit(cluster["server"])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not a kubeconfig: {error!r}") from error
    if server.scheme != "https" or not server.hostname:
        raise ValueError(f"the server {cluster['server']} is not spoken to by https")
    certificate = _material(user, "client-certificate", directory)
    token = _material(user, "token", directory)
    if not certificate.given and not token.given:
        raise ValueError(f"user {context['user']} has neither a certificate nor a token in it")
    return Credentials(
        host=server.hostname,
        port=server.port or 443,
        path=server.path.rstrip("/"),
        server_name=cluster.get("tls-server-name"),
        authority=_material(cluster, "certificate-authority", directory),
        certificate=certificate,
        key=_material(user, "client-key", directory),
        token=token,
    )


def carried(credentials: Credentials, read: Callable[[PurePosixPath], bytes | None]) -> Credentials:
    """The same with the content of every file in place of its path, for who sees the node's files elsewhere.

    Args:
        read: reads a file by its path on the node.

    Raises:
        ValueError: there is no such file.
    """

    def carry(material: Material) -> Material:
        if material.path is None:
            return material
        if (data := read(PurePosixPath(material.path))) is None:
            raise ValueError(f"there is no {material.path}, which it names")
        return Material(data=data)

    return replace(
        credentials,
        authority=carry(credentials.authority),
        certificate=carry(credentials.certificate),
        key=carry(credentials.key),
        token=carry(credentials.token),
    )


def _named(document: Mapping[str, Any], items: str, item: str, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next((entry[item] for entry in document[items] if entry["name"] == name), {})
    if not found:
        raise KeyError(f"{item} {name}")
    return found


def _material(fields: Mapping[str, Any], name: str, directory: PurePosixPath) -> Material:
    """Text counts for more than a file, as it does for Kubernetes' own clients."""
    if name == "token":
        text, path = fields.get("token"), fields.get("tokenFile")
        data = text.encode() if text else None
    else:
        text, path = fields.get(f"{name}-data"), fields.get(name)
        try:
            data = base64.b64decode(text, validate=True) if text else None
        except binascii.Error as error:
            raise ValueError(f"its {name}-data is not base64") from error
    return Material(data=data) if data else Material(path=str(directory / path) if path else None)
