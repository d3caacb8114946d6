"""A kubelet's settings, as it reads its flags, its configuration file and drop-ins."""

import pytest

from nodeupgrade.kubelet.layout import config_directory
from nodeupgrade.kubelet.settings import Configured, configured


def test_the_last_configuration_counts() -> None:
    assert Configured(words=("--config=/a", "--config", "/b", "--v=2")).flag("config") == "/b"
    assert Configured(words=("--config=",)).flag("config") == ""
    assert Configured(words=("--configuration=/x", "--v=2")).flag("config") is None
    assert config_directory(("--config=/a", "--config-dir=/etc/kubelet.d")) == "/etc/kubelet.d"


def test_a_boolean_flag_without_a_value_is_true() -> None:
    given = Configured(
        words=("--rotate-certificates", "--protect-kernel-defaults", "--node-ip", "::1", "--fail-swap-on")
    )
    assert given.flag("rotate-certificates") == given.flag("protect-kernel-defaults") == "true"
    assert (given.flag("node-ip"), given.flag("fail-swap-on")) == ("::1", "true")


DEFAULTS = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


def without(*signals: str) -> dict[str, str]:
    return {signal: amount for signal, amount in DEFAULTS.items() if signal not in signals}


@pytest.mark.parametrize(
    ("configs", "document"),
    [
        (["maxPods: 250", "maxPods: null"], {}),
        (["maxPods: null"], {}),
        (["{a: {b: 1, c: 2}}", "{a: {b: null}}"], {"a": {"c": 2}}),
        (["{a: {b: 1}}", "a: null", "{a: {c: 2}}"], {"a": {"c": 2}}),
    ],
)
def test_null_in_a_drop_in_removes(configs: list[str], document: dict[str, object]) -> None:
    assert configured((), *(config.encode() for config in configs)).document == document


@pytest.mark.parametrize(
    ("configs", "thresholds"),
    [
        (["a: 1", "{evictionHard: {nodefs.available: 1Gi}}"], {**DEFAULTS, "nodefs.available": "1Gi"}),
        (["a: 1", "{evictionHard: {nodefs.available: null}}"], without("nodefs.available")),
        (["a: 1", "{evictionHard: {nodefs.available: null}}", "evictionHard: null"], DEFAULTS),
        (["{evictionHard: {memory.available: 1Gi}}", "a: 1"], {"memory.available": "1Gi"}),
        (["{evictionHard: {memory.available: 1Gi}}", "{evictionHard: {memory.available: null}}"], {}),
        (["{evictionHard: {memory.available: 1Gi}}", "evictionHard: null"], DEFAULTS),
        (["{evictionHard: {memory.available: 1Gi}}"], {"memory.available": "1Gi"}),
        (["a: 1", "b: 2"], DEFAULTS),
        (
            ["{evictionHard: {memory.available: 100%, nodefs.available: 0%, imagefs.available: 0.0%, x: 1%}}"],
            {"x": "1%"},
        ),
        (
            ["{evictionHard: {memory.available: '0', nodefs.available: x%}}"],
            {"memory.available": "0", "nodefs.available": "x%"},
        ),
    ],
)
def test_thresholds_of_drop_ins_are_merged_into_the_defaults(configs: list[str], thresholds: dict[str, str]) -> None:
    assert configured((), *(config.encode() for config in configs)).eviction_hard() == thresholds


def test_a_signal_without_default_is_not_merged_into() -> None:
    seen = configured((), b"a: 1", b"{evictionHard: {nodefs.available: 1Gi}}")

    assert "imagefs.inodesFree" not in seen.eviction_hard({"imagefs.inodesFree"})
