"""Static pods, as the kubelet code of the releases reads, defaults and hashes them (tools/oracle made the file)."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.kubelethash import HashError, default_static_container, hash_manifest_container, qos_class

GOLDEN = Path(__file__).parent / "static-pods.jsonl.gz"
LINES: list[dict[str, Any]] = [*map(json.loads, gzip.decompress(GOLDEN.read_bytes()).decode().splitlines())]
MINORS = sorted({minor for line in LINES for minor in line["hash"]}, key=lambda minor: int(minor[2:]))
GATED = sorted({minor for line in LINES for minor in line["gated"]})


def differences(kind: str, minor: str, *, gated: bool) -> tuple[int, list[str]]:
    compared, different = 0, []
    for line in LINES:
        spec = line["manifest"]["spec"]
        for key in ("initContainers", "containers"):
            for container in spec.get(key, []):
                expected = line[kind].get(minor, {}).get(container["name"])
                if expected is None:  # the release did not accept the pod
                    continue
                defaulted = default_static_container(
                    container,
                    host_network=bool(spec.get("hostNetwork")),
                    in_place_resize=gated and key == "containers",
                )
                compared += 1
                if hash_manifest_container(defaulted, minor) != expected:
                    different.append(f"{line['manifest']['metadata']['name']}/{container['name']}")
    return compared, different


def test_there_are_values_of_every_kind_of_release() -> None:
    assert MINORS == ["1.8", "1.12", "1.15", "1.20", "1.30", "1.33"]
    assert GATED == ["1.30"]


@pytest.mark.parametrize("minor", MINORS)
def test_hash_is_what_the_release_computes(minor: str) -> None:
    compared, different = differences("hash", minor, gated=False)
    assert compared > 100
    assert different == []


@pytest.mark.parametrize("minor", GATED)
def test_the_resize_gate_adds_what_the_release_adds(minor: str) -> None:
    compared, different = differences("gated", minor, gated=True)
    assert compared > 100
    assert different == []
    assert differences("gated", minor, gated=False)[1], "without the gate some of them are other hashes"


@pytest.mark.parametrize("minor", MINORS)
def test_qos_class_is_what_the_release_computes(minor: str) -> None:
    known = [(line["manifest"], line["qos"][minor]) for line in LINES if minor in line["qos"]]
    found = []
    for manifest, expected in known:
        try:
            found.append((manifest["metadata"]["name"], qos_class(manifest, minor), expected))
        except HashError as error:
            pytest.fail(f"{manifest['metadata']['name']}: {error}")
    assert [each for each in found if each[1] != each[2]] == []
    assert {expected for _, expected in known} == {"BestEffort", "Burstable", "Guaranteed"}
