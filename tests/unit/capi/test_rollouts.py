"""Tests the names of NodeUpgrades for Cluster API, and the file that administrators write."""

import re
from itertools import product

import pytest

from nodeupgrade.api.upgrade.object import parse_spec
from nodeupgrade.capi.rollouts import RolloutsError, is_for, name_of, object_of, read_rollouts
from tests.builders.cluster_api import NEW, ROLLOUTS

FILE = b"""
artifacts:
  v1.33.13: {preStaged: {linux-amd64: {path: /opt/kubelet, sha256: %s}}}
spec:
  strategy: {maxConcurrent: 3}
""" % (b"a" * 64)


def test_names_are_valid_bounded_and_different() -> None:
    parts = ("a", "a-b", "b", "a." * 100 + "a", "x" * 253)
    names = {name_of(*each) for each in product(parts, parts, ("v1.33.13", "v1.33.1+k3s1"))}
    assert len(names) == 2 * len(parts) ** 2
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])", name) for name in names)


def test_the_file_decides_all_but_version_and_nodes() -> None:
    spec = parse_spec(read_rollouts(FILE).spec_of("one", NEW))
    assert spec.strategy.max_concurrent.of(10) == 3
    assert spec.nodes.membership == "Continuous"
    assert is_for(spec, "one", NEW)
    assert not is_for(spec, "two", NEW)
    assert not is_for(spec, "one", "v1.33.12")
    assert not is_for(None, "one", NEW)
    assert ROLLOUTS.spec_of("one", "v1.33.12") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"artifact: {}", "artifact"),
        (b"[]", "list"),
        (b"a: &a [*a]", "alias"),
        (b"\xff", "file of rollouts"),
        (b"spec: {nodes: {all: true}}", "spec.nodes"),
        (b"spec: {version: v1.30.0}", "spec.version"),
        (FILE.replace(b"maxConcurrent: 3", b"maxConcurrent: x"), "spec.strategy.maxConcurrent"),
        (FILE.replace(b"v1.33.13", b"latest"), "spec.version"),
        (FILE.replace(b"a" * 64, b"a"), "sha256"),
    ],
)
def test_a_file_that_makes_no_valid_rollout_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(RolloutsError, match=said):
        read_rollouts(text)


def test_an_empty_file_lists_nothing() -> None:
    assert read_rollouts(b"").spec_of("one", NEW) is None


def test_a_rollout_names_its_creator_as_four_eyes_demands() -> None:
    annotations = object_of("one", "clusters/workers", ROLLOUTS.spec_of("one", NEW) or {})["metadata"]["annotations"]
    creator = "system:serviceaccount:nodeupgrade-system:nodeupgrade-capi"
    assert annotations["nodeupgrade.dev/created-by"] == creator
