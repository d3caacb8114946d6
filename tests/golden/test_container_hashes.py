"""Every golden value: container hashes made by the Go types of the Kubernetes releases themselves."""

import gzip
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.kubelethash import (
    NEWEST_MINOR,
    default_static_container,
    detect,
    hash_container,
    hash_manifest_container,
    hash_without_resources,
)

HERE = Path(__file__).parent
GENERATED = HERE / "generated-pods.jsonl.gz"
# Made from manifests of public projects, so not part of this one.
BESIDE_THE_CHECKOUT = HERE.parents[2] / "shared" / "goldens" / "real-pods.jsonl.gz"
REAL = Path(os.environ.get("NODEUPGRADE_REAL_GOLDENS") or BESIDE_THE_CHECKOUT)

FILES = [
    pytest.param(GENERATED, id="generated"),
    pytest.param(
        REAL,
        id="real",
        marks=pytest.mark.skipif(
            not REAL.exists(), reason="real-pods.jsonl.gz is not here; set NODEUPGRADE_REAL_GOLDENS to its path"
        ),
    ),
]
MINORS = [f"1.{minor}" for minor in range(8, NEWEST_MINOR + 1)]

Pod = dict[str, Any]


@cache
def pods(file: Path) -> tuple[Pod, ...]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return tuple(map(json.loads, lines))


def containers(pod: Pod) -> dict[str, dict[str, Any]]:
    spec = pod["spec"]
    return {each["name"]: each for each in [*spec.get("initContainers", []), *spec["containers"]]}


def differences(file: Path, kind: str, minor: str, compute: Callable[..., str]) -> tuple[int, list[str]]:
    compared, different = 0, []
    for pod in pods(file):
        specs = containers(pod)
        for name, expected in pod[kind][minor].items():
            compared += 1
            if compute(specs[name], minor) != expected:
                different.append(f"{pod['name']}/{name}")
    return compared, different


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("minor", MINORS)
def test_hash_is_what_the_release_computes(file: Path, minor: str) -> None:
    compared, different = differences(file, "hash", minor, hash_container)
    assert compared > 100
    assert different == []


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("minor", ["1.27", "1.28", "1.29", "1.30"])
def test_hash_without_resources_is_what_the_release_computes(file: Path, minor: str) -> None:
    compared, different = differences(file, "hashWithoutResources", minor, hash_without_resources)
    assert compared > 100
    assert different == []


@pytest.mark.parametrize("minor", ["1.8", "1.15", "1.16", "1.30", "1.31"])
def test_defaulting_again_changes_nothing(minor: str) -> None:
    """The API server has defaulted these pods, so a manifest's defaults must find nothing left to add."""

    def as_manifest(container: dict[str, Any], minor: str) -> str:
        return hash_manifest_container(default_static_container(container, host_network=False), minor)

    assert differences(GENERATED, "hash", minor, as_manifest)[1] == []


@pytest.mark.parametrize(
    ("wrote", "detected"),
    [
        ("1.9", ["1.9"]),
        ("1.13", ["1.12", "1.13"]),
        ("1.15", ["1.15"]),
        ("1.18", ["1.16", "1.17", "1.18"]),
        ("1.30", ["1.30"]),
        ("1.33", [f"1.{minor}" for minor in range(31, NEWEST_MINOR + 1)]),
    ],
)
def test_the_kubelet_that_wrote_the_hashes_is_detected(wrote: str, detected: list[str]) -> None:
    stored = (
        (container, pod["hash"][wrote][name]) for pod in pods(GENERATED) for name, container in containers(pod).items()
    )
    assert [version.series for version in detect(stored)] == detected
