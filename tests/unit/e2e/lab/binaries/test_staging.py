"""Tests the go.mod files that Kubernetes programs are built with."""

import pytest

from e2e.lab import LabError
from e2e.lab.binaries.staging import module_file
from e2e.lab.binaries.versions import Version

UPSTREAM = """\
module k8s.io/kubernetes

go 1.22.0

require (
	github.com/some/thing v1.2.3
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.120.1
	k8s.io/kubelet v0.0.0
)

replace (
	github.com/old/pin => github.com/old/pin v0.4.11
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubelet => ./staging/src/k8s.io/kubelet
)
"""


def replaces(text: str) -> dict[str, str]:
    return dict(line.strip().split(" => ") for line in text.splitlines() if " => " in line)


def test_staging_modules_come_from_their_published_releases() -> None:
    text = module_file(Version.parse("1.30.14"), UPSTREAM)
    assert "go 1.22.0\n" in text
    assert "require k8s.io/kubernetes v1.30.14\n" in text
    assert replaces(text) == {
        "github.com/old/pin": "github.com/old/pin v0.4.11",
        "k8s.io/api": "k8s.io/api v0.30.14",
        "k8s.io/kubelet": "k8s.io/kubelet v0.30.14",
    }


def test_staging_modules_that_are_only_required_are_replaced_too() -> None:
    upstream = "require k8s.io/api v0.0.0\n"
    assert replaces(module_file(Version.parse("1.33.13"), upstream)) == {"k8s.io/api": "k8s.io/api v0.33.13"}


def test_1_15_0_uses_the_commits_of_its_tag_and_leaves_out_what_no_component_needs() -> None:
    upstream = UPSTREAM.replace("replace (", "replace (\n\tk8s.io/node-api => ./staging/src/k8s.io/node-api")
    found = replaces(module_file(Version.parse("1.15.0"), upstream))
    assert found["k8s.io/api"] == "k8s.io/api v0.0.0-20190620084959-7cf5895f2711"
    assert "k8s.io/node-api" not in found


def test_a_version_before_1_17_without_recorded_commits_is_refused() -> None:
    with pytest.raises(LabError, match=r"cannot build Kubernetes 1\.16\.3"):
        module_file(Version.parse("1.16.3"), UPSTREAM)
