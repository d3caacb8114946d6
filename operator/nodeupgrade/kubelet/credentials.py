"""Reads the credentials in a kubelet's kubeconfig: client certificates or a token, or the program that prints them."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.api.yaml import read_one

# The program that prints a kubelet's credentials: how a kubeconfig names it, and what the two say to each other.
#
# Follows client-go's credential plugins (``client.authentication.k8s.io``): v1 from 1.22 on, v1beta1 from 1.11 on,
# v1alpha1 up to 1.23. A kubelet has no terminal, so it runs no program that requires one.

GROUP = "client.authentication.k8s.io"
KIND = "ExecCredential"
VERSIONS = frozenset(f"{GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
MODE_REQUIRED = f"{GROUP}/v1"
"""The version in which ``interactiveMode`` must be set; it has a default in the others."""
INFO = "KUBERNETES_EXEC_INFO"
"""Variable that tells the program what it is asked. Kubelets before 1.20 set it for v1alpha1 alone."""
TOLD_OF_CLUSTER = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")


class CredentialProgramError(ValueError):
    """The program that a kubeconfig names cannot be run, fails, or prints nothing usable.

    The message never says what it has printed.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialProgram:
    """A program that prints credentials, as a kubeconfig names it."""

    api_version: str
    command: str  # an absolute path, or a name without a slash that is looked for on the kubelet's PATH
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)  # set on top of the kubelet's environment
    cluster: Json | None = None  # what it is told of the cluster, without the CA; None if it is told nothing

    def __str__(self) -> str:
        """Return its name, for messages; arguments may be secret."""
        return self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """The credentials that a program has printed: a token, a certificate with its key, or both."""

    token: bytes | None = field(default=None, repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires: datetime | None = None  # None if it says nothing of that


def named_program(stanza: Mapping[str, Any], cluster: Mapping[str, Any], directory: PurePosixPath) -> CredentialProgram:
    """Read the ``exec`` of a kubeconfig's user, given its cluster; a relative path leads from its directory.

    Raises:
        CredentialProgramError: a kubelet could not run this.
    """
    version, command = str(stanza.get("apiVersion")), stanza.get("command")
    if not isinstance(command, str) or not command:
        raise CredentialProgramError("its exec names no command")
    if version not in VERSIONS:
        raise CredentialProgramError(f"its exec has no apiVersion that is known: {version}")
    mode = str(stanza.get("interactiveMode") or ("unset" if version == MODE_REQUIRED else "IfAvailable"))
    if mode not in {"Never", "IfAvailable"}:
        raise CredentialProgramError(f"its exec has interactiveMode {mode}, and a kubelet has no terminal")
    try:
        return CredentialProgram(
            api_version=version,
            command=str(directory / _text(command)) if "/" in command else _text(command),
            arguments=tuple(_text(word) for word in stanza.get("args") or ()),
            variables={_text(each["name"]): _text(each.get("value", "")) for each in stanza.get("env") or ()},
            cluster=_told(cluster) if stanza.get("provideClusterInfo") else None,
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise CredentialProgramError(f"its exec is not understood: {type(error).__name__}") from None


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    return value


def _told(cluster: Mapping[str, Any]) -> Json:
    told = {name: cluster[name] for name in TOLD_OF_CLUSTER if cluster.get(name)}
    extensions: Iterable[Mapping[str, Any]] = cluster.get("extensions") or ()
    own = next((each["extension"] for each in extensions if each.get("name") == f"{GROUP}/exec"), None)
    return told if own is None else told | {"config": own}


def environment(program: CredentialProgram, kubelets: Mapping[str, str], authority: str | None) -> dict[str, str]:
    """Return the program's environment, given that of the kubelet and the base64 of the cluster's CA certificates."""
    spec: dict[str, Any] = {"interactive": False}
    if program.cluster is not None:
        spec["cluster"] = program.cluster | ({} if authority is None else {"certificate-authority-data": authority})
    info = {"apiVersion": program.api_version, "kind": KIND, "spec": spec}
    return {**kubelets, **program.variables, INFO: json.dumps(info)}


def places(program: CredentialProgram, kubelets: Mapping[str, str]) -> tuple[PurePosixPath, ...]:
    """Return where a kubelet with this environment looks for the program, in order.

    The PATH is the kubelet's own, whatever ``env`` says; what is relative in it is not heeded.
    """
    if "/" in program.command:
        return (PurePosixPath(program.command),)
    searched = kubelets.get("PATH", "").split(":")
    return tuple(PurePosixPath(each) / program.command for each in searched if each.startswith("/"))


def printed(program: CredentialProgram, output: bytes) -> Printed:
    """Read what a program has printed.

    Raises:
        CredentialProgramError: it is not what it was asked for.
    """
    try:
        document = json.loads(output)
    except (ValueError, RecursionError):  # neither is told: it may quote a token
        raise CredentialProgramError("what it prints is not JSON") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise CredentialProgramError(f"what it prints is not an {KIND}")
    if document.get("apiVersion") != program.api_version:
        raise CredentialProgramError(f"it does not print the {KIND} of {program.api_version} that its exec asks for")
    if not isinstance(status := document.get("status"), dict):
        raise CredentialProgramError(f"the {KIND} that it prints has no status")
    certificate, key = _data(status, "clientCertificateData"), _data(status, "clientKeyData")
    if (certificate is None) != (key is None):
        raise CredentialProgramError("it prints a certificate without a key, or a key without a certificate")
    if (token := _data(status, "token")) is None and certificate is None:
        raise CredentialProgramError("it prints neither a token nor a certificate")
    return Printed(token=token, certificate=certificate, key=key, expires=_expiry(status))


def _data(status: Mapping[str, Any], name: str) -> bytes | None:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise CredentialProgramError(f"the {name} that it prints is not a string")
    return value.encode("utf-8", errors="surrogatepass") if value else None


def _expiry(status: Mapping[str, Any]) -> datetime | None:
    if (value := status.get("expirationTimestamp")) is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is not None:
            return moment
    except (TypeError, ValueError):
        pass
    raise CredentialProgramError("the expirationTimestamp that it prints is not a time of RFC 3339")


# The kubeconfig.


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
