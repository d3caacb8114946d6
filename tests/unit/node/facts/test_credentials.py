"""Tests how the kubelet's credentials are found."""

from datetime import timedelta

import pytest

from nodeupgrade.api.json import Json
from tests.builders.gathered import gathered, node

CONFIG = b"""
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://api:6443"}}]
users: [{name: u, user: {client-certificate: pki/mine.pem, client-key: pki/mine.key}}]
"""
CURRENT = "/var/lib/kubelet/pki/kubelet-client-current.pem"


@pytest.mark.parametrize(
    ("flags", "files", "problem", "certificates"),
    [
        ((), {}, "there is no /etc/k.conf", {}),
        ((), {"/etc/k.conf": b"["}, "/etc/k.conf is not a kubeconfig", {}),
        ((), {"/etc/k.conf": b"[]"}, "/etc/k.conf is not a kubeconfig", {}),
        ((), {"/etc/k.conf": CONFIG}, "there is no /etc/pki/mine.pem, which /etc/k.conf names", {}),
        ((), {"/etc/k.conf": CONFIG, "/etc/pki/mine.pem": b"m", CURRENT: b"c"}, "", {"/etc/pki/mine.pem": b"m"}),
        (("--rotate-certificates=true",), {"/etc/k.conf": CONFIG, CURRENT: b"c"}, "", {CURRENT: b"c"}),
        ((), {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki/mine.pem", b"exec: {}")}, "", {}),
        ((), {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki/mine.pem", b"token: t")}, "", {}),
        (
            (), {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki", b"client-certificate-data: bQ==, x: pki")},
            "", {"/etc/k.conf": b"m"},
        ),
    ],
)  # fmt: skip
def test_credentials_are_looked_for(
    flags: tuple[str, ...], files: dict[str, bytes], problem: str, certificates: dict[str, bytes]
) -> None:
    found = gathered(node("--kubeconfig=/etc/k.conf", *flags, files=files)).readiness.host.identity

    assert found is not None
    assert (found.problem, dict(found.certificates)) == (problem, certificates)


@pytest.mark.parametrize(
    ("instead", "by_program"),
    [
        (b"exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: aws-iam-authenticator}", True),
        (b"exec: {}", True),
        (b"token: t, exec: {command: other}", False),
        (b"username: me", False),
    ],
)
def test_credentials_that_a_program_prints_are_known_as_such(instead: bytes, by_program: bool) -> None:
    files = {"/etc/k.conf": CONFIG.replace(b"client-certificate: pki/mine.pem", instead)}

    found = gathered(node("--kubeconfig=/etc/k.conf", files=files)).readiness.host.identity

    assert found is not None
    assert found.by_program is by_program


def test_credentials_are_looked_at_by_the_clock_of_the_api_server() -> None:
    beat = {"type": "Ready", "lastHeartbeatTime": "2026-11-21T21:14:37Z"}
    stored = {"manager": "kubelet", "subresource": "status", "time": "2026-11-21T22:14:37Z"}
    files = {"/etc/k.conf": CONFIG}
    slow: Json = {"metadata": {"managedFields": [stored]}, "status": {"conditions": [beat]}}

    moments = [
        each.readiness.host.identity
        for each in (
            gathered(node("--kubeconfig=/etc/k.conf", files=files)),
            gathered(node("--kubeconfig=/etc/k.conf", files=files), node_object=slow),
        )
    ]

    assert moments[0] is not None
    assert moments[1] is not None
    assert moments[1].now - moments[0].now == timedelta(hours=1)
