"""The credential plugin of a kubeconfig (``exec``), which prints the kubelet's credentials: its call and output."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.text import parse_json, parse_time

GROUP = "client.authentication.k8s.io"
KIND = "ExecCredential"
VERSIONS = frozenset(f"{GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
MODE_REQUIRED = f"{GROUP}/v1"
"""The version in which ``interactiveMode`` must be set; it has a default in the others."""
INFO = "KUBERNETES_EXEC_INFO"
"""Environment variable with the request. Kubelets before 1.20 set it for v1alpha1 only."""
CLUSTER_INFO_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")


class CredentialProgramError(ValueError):
    """The program cannot be run, fails, or prints nothing usable. The message never contains its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialProgram:
    """A program that prints credentials, as a kubeconfig names it."""

    api_version: str
    command: str  # an absolute path, or a name without a slash that is looked for on the kubelet's PATH
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)  # set on top of the kubelet's environment
    cluster: Json | None = None  # the cluster info that it gets, without the CA; None if it gets none

    def __str__(self) -> str:
        """Return its name, for messages; arguments may be secret."""
        return self.command


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCredentials:
    """The credentials that a program has printed: a token, a certificate with its key, or both."""

    token: bytes | None = field(default=None, repr=False)
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    expires: datetime | None = None  # None if not given


def parse_program(stanza: Mapping[str, Any], cluster: Mapping[str, Any], directory: PurePosixPath) -> CredentialProgram:
    """Read the ``exec`` of a kubeconfig's user, given its cluster; a relative path leads from its directory.

    Raises:
        CredentialProgramError: a kubelet could not run this.
    """
    version, command = str(stanza.get("apiVersion")), stanza.get("command")
    if not isinstance(command, str) or not command:
        raise CredentialProgramError("its exec has no command")
    if version not in VERSIONS:
        raise CredentialProgramError(f"its exec has an unknown apiVersion: {version}")
    mode = str(stanza.get("interactiveMode") or ("unset" if version == MODE_REQUIRED else "IfAvailable"))
    if mode not in {"Never", "IfAvailable"}:
        raise CredentialProgramError(f"its exec has interactiveMode {mode}, and a kubelet has no terminal")
    try:
        return CredentialProgram(
            api_version=version,
            command=str(directory / _text(command)) if "/" in command else _text(command),
            arguments=tuple(_text(word) for word in stanza.get("args") or ()),
            variables={_text(each["name"]): _text(each.get("value", "")) for each in stanza.get("env") or ()},
            cluster=_cluster_info(cluster) if stanza.get("provideClusterInfo") else None,
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise CredentialProgramError(f"its exec is not understood: {type(error).__name__}") from None


def _text(value: object) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise TypeError
    return value


def _cluster_info(cluster: Mapping[str, Any]) -> Json:
    info = {name: cluster[name] for name in CLUSTER_INFO_FIELDS if cluster.get(name)}
    extensions: Iterable[Mapping[str, Any]] = cluster.get("extensions") or ()
    own = next((each["extension"] for each in extensions if each.get("name") == f"{GROUP}/exec"), None)
    return info if own is None else info | {"config": own}


def environment(program: CredentialProgram, kubelets: Mapping[str, str], authority: str | None) -> dict[str, str]:
    """Return the program's environment, given that of the kubelet and the base64 of the cluster's CA certificates."""
    spec: dict[str, Any] = {"interactive": False}
    if program.cluster is not None:
        spec["cluster"] = program.cluster | ({} if authority is None else {"certificate-authority-data": authority})
    info = {"apiVersion": program.api_version, "kind": KIND, "spec": spec}
    return {**kubelets, **program.variables, INFO: json.dumps(info)}


def candidate_paths(program: CredentialProgram, kubelets: Mapping[str, str]) -> tuple[PurePosixPath, ...]:
    """Return where a kubelet with this environment looks for the program, in order.

    The PATH is the kubelet's own, whatever ``env`` says; its relative directories are ignored.
    """
    if "/" in program.command:
        return (PurePosixPath(program.command),)
    searched = kubelets.get("PATH", "").split(":")
    return tuple(PurePosixPath(each) / program.command for each in searched if each.startswith("/"))


def parse_output(program: CredentialProgram, output: bytes) -> ProgramCredentials:
    """Parse the output of a program.

    Raises:
        CredentialProgramError: it is not the ExecCredential that was requested.
    """
    try:
        document = parse_json(output)
    except ValueError:  # not chained: it may quote a token
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
    return ProgramCredentials(token=token, certificate=certificate, key=key, expires=_expiry(status))


def _data(status: Mapping[str, Any], name: str) -> bytes | None:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise CredentialProgramError(f"the {name} that it prints is not a string")
    return value.encode("utf-8", errors="surrogatepass") if value else None


def _expiry(status: Mapping[str, Any]) -> datetime | None:
    if (value := status.get("expirationTimestamp")) is None:
        return None
    try:
        return parse_time(value)
    except ValueError:
        raise CredentialProgramError("the expirationTimestamp that it prints is not a time of RFC 3339") from None
