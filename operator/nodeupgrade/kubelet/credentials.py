"""Reads the credentials in a kubelet's kubeconfig: client certificates or a token, or the program that prints them."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import yaml

from nodeupgrade.api.yaml import read_one
from nodeupgrade.kubelet.credential_program import CredentialProgram, CredentialProgramError, Printed, named_program


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """A certificate, key or token, either in a file or inline in the kubeconfig."""

    path: str | None = None
    data: bytes | None = field(default=None, repr=False)

    @property
    def given(self) -> bool:
        """Whether it is set at all."""
        return self.path is not None or self.data is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The API server's address, and the credentials for it."""

    host: str
    port: int
    path: str
    server_name: str | None  # the name to expect in the server's certificate, if it is not the host
    authority: Material  # the CA certificates that the server is verified with; if not set, those of the system
    certificate: Material
    key: Material
    token: Material  # the bearer token
    program: CredentialProgram | None = None  # prints the credentials if there are none


def parse(text: bytes, directory: PurePosixPath) -> Credentials:
    """Read the current context of a kubeconfig; relative paths in it are resolved from its directory.

    Raises:
        CredentialProgramError: it names a program that no kubelet could run.
        ValueError: it is not a kubeconfig, its server is not https, or it has no certificate, token or program.
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
    program = None
    if not certificate.given and not token.given:
        if not isinstance(stanza := user.get("exec"), Mapping):
            raise ValueError(f"user {context['user']} has neither a certificate nor a token in it")
        try:
            program = named_program(stanza, cluster, directory)
        except CredentialProgramError as error:
            raise CredentialProgramError(f"user {context['user']} has none of its own, and {error}") from error
    return Credentials(
        host=server.hostname,
        port=server.port or 443,
        path=server.path.rstrip("/"),
        server_name=cluster.get("tls-server-name"),
        authority=_material(cluster, "certificate-authority", directory),
        certificate=certificate,
        key=_material(user, "client-key", directory),
        token=token,
        program=program,
    )


def with_printed(credentials: Credentials, printed: Printed) -> Credentials:
    """Return the credentials with what the program has printed in its place."""
    return replace(
        credentials,
        certificate=Material(data=printed.certificate),
        key=Material(data=printed.key),
        token=Material(data=printed.token),
        program=None,
    )


def carried(credentials: Credentials, read: Callable[[PurePosixPath], bytes | None]) -> Credentials:
    """Return the credentials with every path replaced by the file's content, for use outside the node's root.

    Raises:
        ValueError: a file does not exist.
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
    content: Mapping[str, Any] = next((entry[item] for entry in document[items] if entry["name"] == name), {})
    if not content:
        raise KeyError(f"{item} {name}")
    return content


def _material(fields: Mapping[str, Any], name: str, directory: PurePosixPath) -> Material:
    """Read one credential; inline data takes precedence over a file, as in Kubernetes' own clients."""
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


# Reads how long a certificate is valid: PEM around DER (RFC 5280), as far as that takes.

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _UTC_TIME, _TIME, _VERSION = 0x30, 0x17, 0x18, 0xA0


def validity(pem: bytes) -> tuple[datetime, datetime]:
    """Return the first and the last moment at which the first certificate in a PEM file is valid.

    Raises:
        ValueError: there is none, or it is damaged.
    """
    found = _BLOCK.search(pem)
    if found is None:
        raise ValueError("it has no certificate")
    try:
        certificate = base64.b64decode(b"".join(found[1].split()), validate=True)
        signed = _content(_content(certificate, _SEQUENCE)[0], _SEQUENCE)[0]
        if signed[0] == _VERSION:  # optional
            signed = _content(signed, _VERSION)[1]
        for _ in ("serial number", "algorithm", "issuer"):
            signed = _content(signed, signed[0])[1]
        first, rest = _moment(_content(signed, _SEQUENCE)[0])
        return first, _moment(rest)[0]
    except (binascii.Error, IndexError) as error:
        raise ValueError(f"its certificate is damaged: {error}") from error


def _moment(data: bytes) -> tuple[datetime, bytes]:
    text, rest = _content(data, data[0])
    if data[0] not in {_UTC_TIME, _TIME}:
        raise ValueError("its certificate has no dates where they belong")
    digits = text.decode("ascii", errors="replace")
    if data[0] == _UTC_TIME:
        digits = ("19" if digits[:2] >= "50" else "20") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC), rest


def _content(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the element that data begins with, and what follows it."""
    if data[0] != tag:
        raise ValueError("its certificate is damaged")
    length, start = data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start], "big")
    if len(data) < start + length:
        raise ValueError("its certificate is cut off")
    return data[start : start + length], data[start + length :]
