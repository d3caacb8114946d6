"""What the admission of pods depends on, with names that their authors choose."""

from pathlib import Path

import pytest

from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.node.facts.admission import look_at_admission
from nodeupgrade.node.host.files.host_files import HostFiles
from tests.doubles.node import pod_json


@pytest.mark.parametrize("name", [".", "operator", "a" * 300, "a/" * 3000, "a\0b", "a\ud800", "operator/x/y"])
def test_no_name_of_a_profile_ends_an_examination(name: str, tmp_path: Path) -> None:
    """The API server takes any path below; an examination that fails counts against the rollout of all nodes."""
    (tmp_path / "var/lib/kubelet/seccomp/operator").mkdir(parents=True)
    body = pod_json("web", "app")
    context = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": name}}}
    pod = parse_pod({**body, "spec": {**body["spec"], **context}})

    assert look_at_admission(HostFiles(tmp_path), read_layout(()), [pod]).seccomp == frozenset()
