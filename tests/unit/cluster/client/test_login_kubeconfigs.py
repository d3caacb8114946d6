"""Tests what is said of kubeconfigs that are wrong: in words, with a remedy, and without what is secret in them."""

import asyncio
import copy
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.client.login import log_in
from nodeupgrade.cluster.client.transport import Patience
from nodeupgrade.cluster.kube_api import (
    NODES,
    NoClusterError,
    NoCredentialsError,
    UnauthenticatedError,
    UnavailableError,
)
from tests.builders.certificates import self_signed

SECRET = "do-not-show"  # noqa: S105 - to be looked for
EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/bin/false", "interactiveMode": "Never"}


def config(**changes: Any) -> str:
    """A kubeconfig with another user, other settings of its cluster, or other lists."""
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1", **changes.pop("cluster", {})}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "users": [{"name": "u", "user": changes.pop("user", {"token": SECRET})}],
    }
    return json.dumps({**copy.deepcopy(body), **{name.replace("_", "-"): value for name, value in changes.items()}})


def program(**changes: Any) -> str:
    return config(user={"exec": {**EXEC, **changes}})


MISSING = "something in it is missing or of a wrong type"
NO_ADDRESS = "is not an address such as https://api.example.com:6443"
NO_PEM = "is not one in PEM"
WRONG = {
    "empty": ("", "is empty"),
    "null": ("null", "is empty"),
    "text": ("hello", "is not a kubeconfig"),
    "a list": ("[1]", "is not a kubeconfig"),
    "no text": ("\0", "it contains a NUL character"),
    "no YAML": (f"token: {SECRET}\na: [", "is not YAML in line 3"),
    "too deep": ("[" * 3000, "nested more than"),
    "an alias of itself": ("a: &a [*a]", "refers to a value that contains the alias"),
    "nothing in it": ("{}", "Expected key current-context"),
    "no clusters": (config(clusters=None), "Expected object with name k"),
    "no contexts": (config(contexts=None), "Expected object with name c"),
    "no users": (config(users=None), MISSING),
    "lists of text": (config(contexts="x"), "to have 'name' key"),
    "a context without a cluster": (config(contexts=[{"name": "c"}]), "Expected key context"),
    "a user with a secret in the wrong place": (config(users=[{"name": "u", "token": SECRET}]), "Expected key user"),
    "no current context": (config(current_context=""), "Expected object with name"),
    "another current context": (config(current_context="zz"), "Expected object with name zz"),
    "no server": (config(cluster={"server": ""}), NO_ADDRESS),
    "a server without a scheme": (config(cluster={"server": "hello"}), NO_ADDRESS),
    "a server of another scheme": (config(cluster={"server": "ftp://x"}), NO_ADDRESS),
    "a server with a wrong port": (config(cluster={"server": "https://x:99999"}), NO_ADDRESS),
    "a server that is a number": (config(cluster={"server": 5}), MISSING),
    "an authority that is nothing": (config(cluster={"certificate-authority-data": "!!!"}), NO_PEM),
    "an authority that is no file": (config(cluster={"certificate-authority": "/nope"}), "/nope"),
    "an authority that is a number": (config(cluster={"certificate-authority-data": 5}), MISSING),
    "a certificate that is nothing": (
        config(user={"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="}),
        NO_PEM,
    ),
    "a proxy of another kind": (config(cluster={"proxy-url": f"socks5://x:{SECRET}@x"}), "its proxy is not an address"),
    "a user that is text": (config(user="x"), MISSING),
    "a token file that is none": (config(user={"tokenFile": "/nope"}), "/nope"),
    "gcp": (config(user={"auth-provider": {"name": "gcp", "config": {}}}), "cmd-path"),
    "oidc": (config(user={"auth-provider": {"name": "oidc"}}), "oidc: missing configuration"),
    "azure": (config(user={"auth-provider": {"name": "azure"}}), "there is no auth-provider azure any more"),
    "no program": (program(command="/nope/aws"), "No such file or directory: '/nope/aws'"),
    "a program that fails": (program(), "process returned 1"),
    "a program that says why": (
        program(command="/bin/sh", args=["-c", "echo log in first >&2; exit 3"]),
        "process returned 3: 'log in first'",
    ),
    "a program that prints nothing": (program(command="/bin/true"), "failed to decode process output"),
    "a program that prints something else": (program(command="/bin/echo", args=["[1]"]), "missing key 'apiVersion'"),
    "a program without a command": (program(command=None), "Expected key command"),
}
CREDENTIALS = {name for name in WRONG if "program" in name} | {"azure"}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_wrong_is_said(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text, said = WRONG[name]
    path = tmp_path / "kubeconfig"
    path.write_text(text)

    with pytest.raises(NoClusterError) as found:
        await log_in(path, None, None)

    assert said in str(found.value)
    assert str(found.value).startswith(f"cannot use {path} because ")
    assert SECRET not in str(found.value)
    assert isinstance(found.value, NoCredentialsError) == (name in CREDENTIALS)
    assert capfd.readouterr() == ("", "")


async def test_of_two_that_log_in_at_once_each_hears_of_itself(tmp_path: Path) -> None:
    """Whoever fails first does so while the other still waits for its credentials."""
    credential = {"apiVersion": EXEC["apiVersion"], "kind": "ExecCredential", "status": {"token": "mine"}}
    prints = f"sleep 0.3; echo '{json.dumps(credential)}'"
    (tmp_path / "good").write_text(program(command="/bin/sh", args=["-c", prints]))
    (tmp_path / "bad").write_text(program())

    good, bad = await asyncio.gather(
        *(log_in(tmp_path / name, None, None) for name in ("good", "bad")), return_exceptions=True
    )

    assert isinstance(bad, NoCredentialsError)
    assert not isinstance(good, BaseException)
    assert good.configuration.api_key["BearerToken"] == "Bearer mine"


@pytest.fixture
async def port(tmp_path: Path) -> AsyncIterator[int]:
    """The port of a server that answers 401 to everybody, with a certificate that only it knows."""
    certificate, key = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("cluster", "error", "said"),
    [
        ({"server": "https://127.0.0.1:PORT"}, UnavailableError, "its certificate is not trusted: self"),
        ({"server": "https://nowhere.invalid"}, UnavailableError, "there is no address of this name in DNS"),
        ({"server": "https://127.0.0.1:1"}, UnavailableError, "127.0.0.1:1: connection refused"),
        (
            {"server": "https://127.0.0.1:PORT", "insecure-skip-tls-verify": True},
            UnauthenticatedError,
            "the API server does not accept the credentials (401:",
        ),
    ],
)
async def test_what_is_wrong_with_the_connection_is_said(
    cluster: dict[str, Any], error: type[Exception], said: str, port: int, tmp_path: Path
) -> None:
    path, server = tmp_path / "kubeconfig", cluster["server"].replace("PORT", str(port))
    path.write_text(config(cluster={**cluster, "server": server}))

    async with KubeClient.open(path, None, Patience(request_seconds=5, retry_seconds=0)) as kube:
        with pytest.raises(error) as found:
            await kube.get(NODES, "any")

    assert said in str(found.value)
