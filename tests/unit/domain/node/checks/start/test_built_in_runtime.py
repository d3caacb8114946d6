"""Which kubelets talk to Docker themselves, through which socket, and how far that goes."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.checks.kubelet import runtime_is_understood
from nodeupgrade.node.checks.runtime import runtime_is_proven
from nodeupgrade.node.runtimes.supported import RUNTIMES
from tests.unit.domain.node.checks.sound import facts, readiness

ENDPOINT = "--container-runtime-endpoint=unix:///run/cri-dockerd.sock"


@pytest.mark.parametrize(
    ("words", "config", "runtime", "expected"),
    [
        ("", b"", "docker", (True, "docker", "/var/run/docker.sock")),
        ("--container-runtime=docker", b"", "docker", (True, "docker", "/var/run/docker.sock")),
        ("--docker-endpoint=unix:///run/d.sock", b"", "docker", (True, "docker", "/run/d.sock")),
        (f"--container-runtime=docker {ENDPOINT}", b"", "docker", (True, "docker", "/var/run/docker.sock")),
        (f"--container-runtime=remote {ENDPOINT}", b"", "docker", (False, "cri-dockerd", "/run/cri-dockerd.sock")),
        (ENDPOINT, b"", "docker", (False, "cri-dockerd", "/run/cri-dockerd.sock")),
        ("", b"containerRuntimeEndpoint: unix:///c.sock", "docker", (False, "cri-dockerd", "/c.sock")),
        ("", b"", "containerd", (False, "containerd", "/run/containerd/containerd.sock")),
        ("--container-runtime=remote", b"", "containerd", (False, "containerd", "/run/containerd/containerd.sock")),
    ],
)  # fmt: skip
def test_who_talks_to_docker_and_where(
    words: str, config: bytes, runtime: str, expected: tuple[bool, str, str]
) -> None:
    layout = read_layout(tuple(words.split()), config, runtime=runtime)

    assert (layout.built_in, layout.runtime, layout.endpoint) == expected


def test_cri_dockerd_has_no_adapter_and_so_is_refused_by_name() -> None:
    assert "cri-dockerd" not in {adapter.kind.name for adapter in RUNTIMES}


@pytest.mark.parametrize(("target", "refused"), [("v1.23.17", False), ("v1.24.0", True), ("v1.33.13", True)])
@pytest.mark.parametrize("built_in", [False, True])
def test_a_kubelet_that_talks_to_docker_itself_goes_no_further_than_1_23(
    target: str, refused: bool, built_in: bool
) -> None:
    found = facts(readiness=readiness(layout=read_layout((), runtime="docker" if built_in else "containerd")))
    found = replace(found, spec=replace(found.spec, to_version=target))

    findings = [f for f in runtime_is_understood(found) if "no dockershim" in f.detail]

    assert [f.reason for f in findings] == [Reason.UNSUPPORTED_RUNTIME] * (refused and built_in)
    assert all("Drain it and move it to another runtime" in f.detail for f in findings)


def test_a_runtime_that_was_never_run_is_refused_until_somebody_accepts_that() -> None:
    found = facts()
    assert list(runtime_is_proven(found)) == []

    found = replace(found, runtime_found=replace(found.runtime_found, unproven="never tried"))
    (finding,) = runtime_is_proven(found)
    assert (finding.reason, "never tried" in finding.detail) == (Reason.RUNTIME_UNPROVEN, True)
    assert runtime_is_proven.acceptable
