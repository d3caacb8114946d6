"""What a kubeconfig says of the program that prints credentials, and what such a program is told and answers."""

import json
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelet.credential_program import (
    INFO,
    CredentialProgram,
    CredentialProgramError,
    ProgramCredentials,
    candidate_paths,
    environment,
    parse_output,
)
from nodeupgrade.kubelet.kubeconfig import Credentials, inlined, parse, with_program_credentials

V1, BETA, ALPHA = (f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
PROGRAM = CredentialProgram(api_version=BETA, command="aws")


def kubeconfig(stanza: object, **cluster: object) -> Credentials:
    text = yaml.safe_dump({
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "kubelet"}}],
        "clusters": [{"name": "it", "cluster": {"server": "https://api:6443/base", **cluster}}],
        "users": [{"name": "kubelet", "user": {"exec": stanza}}],
    }).encode()  # fmt: skip
    return parse(text, PurePosixPath("/var/lib/kubelet"))


def program(stanza: object, **cluster: object) -> CredentialProgram:
    found = kubeconfig(stanza, **cluster).program
    assert found is not None
    return found


def exec_(command: str = "aws", version: str = BETA, **more: object) -> dict[str, object]:
    return {"apiVersion": version, "command": command, **more}


def test_as_eks_and_gke_write_it() -> None:
    eks = exec_("/usr/bin/aws-iam-authenticator", args=["token", "-i", "it"], env=[{"name": "A", "value": "b"}])
    gke = exec_("/home/kubernetes/bin/gke-exec-auth-plugin", args=["--cache-dir", "/var/lib/kubelet/pki"])

    assert program(eks) == CredentialProgram(
        api_version=BETA,
        command="/usr/bin/aws-iam-authenticator",
        arguments=("token", "-i", "it"),
        variables={"A": "b"},
    )
    assert program(gke).arguments == ("--cache-dir", "/var/lib/kubelet/pki")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("/opt/aws", ["/opt/aws"]),
        ("bin/aws", ["/var/lib/kubelet/bin/aws"]),
        ("./aws", ["/var/lib/kubelet/aws"]),
        ("aws", ["/usr/bin/aws", "/bin/aws"]),
    ],
)
def test_where_a_kubelet_looks_for_it(command: str, found: list[str]) -> None:
    """What is relative in a PATH is not heeded, and no variable of the stanza changes where it is looked for."""
    named = program(exec_(command, env=[{"name": "PATH", "value": "/evil"}]))

    assert [str(path) for path in candidate_paths(named, {"PATH": "/usr/bin:.::bin:/bin"})] == found


@pytest.mark.parametrize(
    ("stanza", "why"),
    [
        ({}, "its exec has no command"),
        ({"apiVersion": BETA, "command": ""}, "its exec has no command"),
        ({"command": "aws"}, "an unknown apiVersion: None"),
        (exec_(version="client.authentication.k8s.io/v2"), "an unknown apiVersion"),
        (exec_(version=V1), "interactiveMode unset, and a kubelet has no terminal"),
        (exec_(interactiveMode="Always"), "interactiveMode Always, and a kubelet has no terminal"),
        (exec_(interactiveMode="Sometimes"), "interactiveMode Sometimes"),
        (exec_(args=[1]), "its exec is not understood"),
        (exec_(args=["a\0b"]), "its exec is not understood"),
        (exec_(env=["A=b"]), "its exec is not understood"),
        (exec_(env=[{"value": "b"}]), "its exec is not understood"),
    ],
)
def test_what_no_kubelet_could_run_is_named(stanza: object, why: str) -> None:
    with pytest.raises(CredentialProgramError, match=why) as told:
        kubeconfig(stanza)
    assert str(told.value).startswith("user kubelet has no credentials, and ")


@pytest.mark.parametrize(("version", "mode"), [(V1, "Never"), (V1, "IfAvailable"), (BETA, None), (ALPHA, None)])
def test_it_is_told_that_nobody_can_be_asked(version: str, mode: str | None) -> None:
    named = program(exec_(version=version, env=[{"name": "A", "value": "mine"}], interactiveMode=mode))

    told = environment(named, {"A": "kubelet's", "HTTPS_PROXY": "p", INFO: "old"}, None)

    assert json.loads(told.pop(INFO)) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    assert told == {"A": "mine", "HTTPS_PROXY": "p"}


def test_it_is_told_of_the_cluster_if_it_wants_to_know() -> None:
    cluster = {
        "certificate-authority": "ca.crt", "tls-server-name": "api", "proxy-url": "http://p",
        "extensions": [
            {"name": "other", "extension": {"x": 1}},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "it"}},
        ],
    }  # fmt: skip
    found = inlined(kubeconfig(exec_(provideClusterInfo=True), **cluster), lambda path: str(path).encode())
    assert found.program is not None

    told = json.loads(environment(found.program, {}, "Y2E=")[INFO])["spec"]["cluster"]

    assert told == {
        "server": "https://api:6443/base", "tls-server-name": "api", "proxy-url": "http://p",
        "certificate-authority-data": "Y2E=", "config": {"audience": "it"},
    }  # fmt: skip
    assert found.authority.data == b"/var/lib/kubelet/ca.crt"
    assert program(exec_(), **cluster).cluster is None


def answer(status: object) -> dict[str, Any]:
    return {"apiVersion": BETA, "kind": "ExecCredential", "spec": {}, "status": status}


def test_what_it_prints_is_used() -> None:
    token = parse_output(
        PROGRAM, json.dumps(answer({"token": "t", "expirationTimestamp": "2026-11-26T20:00:00Z"})).encode()
    )
    pair = parse_output(PROGRAM, json.dumps(answer({"clientCertificateData": "c", "clientKeyData": "k"})).encode())

    assert token == ProgramCredentials(token=b"t", expires=datetime(2026, 11, 26, 20, tzinfo=UTC))
    assert pair == ProgramCredentials(certificate=b"c", key=b"k")
    used = with_program_credentials(kubeconfig(exec_()), pair)
    assert (used.certificate.data, used.key.data, used.token.given, used.program) == (b"c", b"k", False, None)


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (b"", "is not JSON"),
        (b"secret", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not an ExecCredential"),
        (answer({}) | {"kind": "Secret"}, "is not an ExecCredential"),
        (answer({"token": "secret"}) | {"apiVersion": V1}, f"the ExecCredential of {BETA} that its exec asks for"),
        ({key: value for key, value in answer({}).items() if key != "status"}, "has no status"),
        (answer({}), "neither a token nor a certificate"),
        (answer({"token": ""}), "neither a token nor a certificate"),
        (answer({"token": ["secret"]}), "the token that it prints is not a string"),
        (answer({"clientCertificateData": "secret"}), "a certificate without a key"),
        (answer({"token": "secret", "clientKeyData": "secret"}), "a certificate without a key"),
        (answer({"token": "secret", "expirationTimestamp": "soon"}), "is not a time"),
        (answer({"token": "secret", "expirationTimestamp": "2026-11-26T20:00:00"}), "is not a time"),
        (answer({"token": "secret", "expirationTimestamp": 12}), "is not a time"),
    ],
)
def test_what_cannot_be_used_is_named_and_never_repeated(output: object, why: str) -> None:
    data = output if isinstance(output, bytes) else json.dumps(output).encode()
    with pytest.raises(CredentialProgramError, match=why) as told:
        parse_output(PROGRAM, data)
    assert "secret" not in repr((told.value, told.value.__cause__))
    assert told.value.__suppress_context__ or told.value.__context__ is None


KEYS = st.sampled_from(["token", "clientCertificateData", "clientKeyData", "expirationTimestamp", "status", "x"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(KEYS, each),
)


@given(st.binary() | JSON.map(lambda each: json.dumps(each).encode()) | JSON.map(
    lambda each: json.dumps(answer({}) | {"status": each}).encode()
))  # fmt: skip
def test_whatever_it_prints_is_used_or_refused(output: bytes) -> None:
    try:
        found = parse_output(PROGRAM, output)
    except CredentialProgramError:
        return
    assert found.token or (found.certificate and found.key)


@given(st.dictionaries(st.sampled_from(["apiVersion", "command", "args", "env", "interactiveMode"]), JSON), JSON)
def test_whatever_a_kubeconfig_says_is_understood_or_refused(stanza: dict[str, object], extensions: object) -> None:
    for given_ in (stanza, exec_(provideClusterInfo=True) | stanza):
        try:
            kubeconfig(given_, extensions=extensions)
        except ValueError:
            continue


def test_nothing_secret_is_in_what_is_logged() -> None:
    found = with_program_credentials(
        kubeconfig(exec_()), ProgramCredentials(token=b"secret", certificate=b"c", key=b"secret")
    )
    variables = program(exec_(env=[{"name": "A", "value": "secret"}]))
    assert "secret" not in repr((found, variables, ProgramCredentials(token=b"secret", key=b"secret")))
