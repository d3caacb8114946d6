"""Tests the checks of the host."""

from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.host import clock_is_right, kernel_limits_leave_room
from nodeupgrade.node.checks.startup import StartingHost
from tests.builders.clock_cases import BEAT, node
from tests.builders.sound import SPEC, pod, readiness
from tests.builders.surroundings_cases import CHECKS, CNI, WARNINGS, V, around


@pytest.mark.parametrize(
    ("stored", "told"),
    [("2026-11-21T21:16:37Z", "120 s behind"), ("2026-11-21T21:12:37Z", "120 s ahead of"), (BEAT, None)],
)
def test_a_clock_that_is_wrong_is_told_of(stored: str, told: str | None) -> None:
    found = ask([clock_is_right], around(node=node(("kubelet", "status", stored))))

    assert [(each.reason, each.forbids) for each in found] == ([] if told is None else [(Reason.CLOCK_SKEW, False)])
    assert told is None or told in found[0].detail


def test_a_limit_of_the_kernel_that_is_used_up_is_warned_of() -> None:
    [finding] = ask([kernel_limits_leave_room], readiness(host=StartingHost(used_up="fs.inotify.max_user_watches")))

    assert not finding.forbids
    assert finding.message.startswith("fs.inotify.max_user_watches, ")
    assert finding.message.endswith("raise it: sysctl -w fs.inotify.max_user_watches=MORE")


PROXY = {**SPEC, "image": "registry.k8s.io/kube-proxy:v1.26.15"}


@pytest.mark.parametrize(
    ("given", "cautions"),
    [
        ({"marking": CNI}, 1),
        ({"marking": CNI, "target": V("v1.26.15"), "current": V("v1.25.16")}, 0),
        ({"marking": CNI, "current": V("v1.27.1")}, 0),
        ({"marking": CNI, "gates": {"IPTablesOwnershipCleanup": False}}, 0),
        ({"marking": CNI, "pods": (parse_pod(pod(containers=[PROXY])),)}, 0),
        ({}, 0),
    ],
)
def test_a_chain_that_is_missed_is_a_caution(given: dict[str, Any], cautions: int) -> None:
    found = ask(WARNINGS, around(**given))

    assert [(f.reason, f.forbids) for f in found] == [(Reason.IPTABLES_CHAINS_NOT_CREATED, False)] * cautions
    assert ask(CHECKS, around(**given)) == ()
