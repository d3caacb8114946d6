"""Reads a kubelet's kubeconfig: the API server's address, and the credentials or the program that prints them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import yaml

from nodeupgrade.api.yaml import read_first
from nodeupgrade.kubelet.credential_program import (
    CredentialProgram,
    CredentialProgramError,
    ProgramCredentials,
    parse_program,
)
from nodeupgrade.text import parse_base64


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
        document = read_first(text)
        context = _named(document, "contexts", "context", document["current-context"])
        cluster = _named(document, "clusters", "cluster", context["cluster"])
        user = _named(document, "users", "user", context["user"])
        server = urlsplit(cluster["server"])
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is not a kubeconfig: {error!r}") from error
    if server.scheme != "https" or not server.hostname:
        raise ValueError(f"the server {cluster['server']} is not an https URL")
    certificate = _material(user, "client-certificate", directory)
    token = _material(user, "token", directory)
    program = None
    if not certificate.given and not token.given:
        if not isinstance(stanza := user.get("exec"), Mapping):
            raise ValueError(f"user {context['user']} has neither a certificate nor a token")
        try:
            program = parse_program(stanza, cluster, directory)
        except CredentialProgramError as error:
            raise CredentialProgramError(f"user {context['user']} has no credentials, and {error}") from error
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


def with_program_credentials(credentials: Credentials, printed: ProgramCredentials) -> Credentials:
    """Return the credentials with the program replaced by its output."""
    return replace(
        credentials,
        certificate=Material(data=printed.certificate),
        key=Material(data=printed.key),
        token=Material(data=printed.token),
        program=None,
    )


def inlined(credentials: Credentials, read: Callable[[PurePosixPath], bytes | None]) -> Credentials:
    """Return the credentials with every path replaced by the file's content, for use outside the node's root.

    Raises:
        ValueError: a file does not exist.
    """

    def inline(material: Material) -> Material:
        if material.path is None:
            return material
        if (data := read(PurePosixPath(material.path))) is None:
            raise ValueError(f"it names {material.path}, which does not exist")
        return Material(data=data)

    return replace(
        credentials,
        authority=inline(credentials.authority),
        certificate=inline(credentials.certificate),
        key=inline(credentials.key),
        token=inline(credentials.token),
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
            data = parse_base64(text) if text else None
        except ValueError as error:
            raise ValueError(f"its {name}-data is not base64") from error
    return Material(data=data) if data else Material(path=str(directory / path) if path else None)
