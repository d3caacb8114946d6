"""Tests how the configuration on disk is compared with that of the running kubelet."""

import pytest

from nodeupgrade.kubelet.settings import configured
from nodeupgrade.node.checks.running_configuration import compare

SAME: tuple[list[str], list[str]] = ([], [])


@pytest.mark.parametrize(
    ("disk", "shown"),
    [
        (b"a: 120s", "2m0s"),
        (b"a: 1.5h", "1h30m0s"),
        (b"a: 1Gi", "1024Mi"),
        (b"a: 0.9", 0.9),
        (b"a: '5'", 5),
        (b"a: {b: []}", {"b": None}),
        (b"a: pki/kubelet.crt", "/var/lib/kubelet/pki/kubelet.crt"),
    ],
)
def test_what_is_written_otherwise_is_the_same(disk: bytes, shown: object) -> None:
    assert compare(configured((), disk), {"a": shown}) == SAME
    assert compare(configured((), disk), {"a": "other"}) != SAME


def test_gates_are_compared_one_by_one() -> None:
    settings = configured(("--feature-gates=A=true",), b"featureGates: {A: false, B: true}")

    assert compare(settings, {"featureGates": {"A": True, "B": True}}) == SAME
    [different], _ = compare(settings, {"featureGates": {"A": True, "B": False}})
    assert different == "featureGates.B is true on disk and false in the running kubelet"
