"""Tests the checks of containers that use the runtime's sockets."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import SocketMountPolicy
from nodeupgrade.findings.check import ask
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.checks.hashes import nobody_hangs_on_the_runtime, sockets_are_not_mounted
from nodeupgrade.node.plan.plan import PlannedContainer
from tests.builders.planned_container import PLANNED
from tests.builders.socket_cases import FOLLOWS, MOUNTS, SOCKET, using

LABEL = PLANNED.label


def found(*containers: PlannedContainer, **fields: Any) -> tuple[Finding, ...]:
    return ask((sockets_are_not_mounted, nobody_hangs_on_the_runtime), using(*containers, **fields))


def test_whoever_uses_no_socket_is_not_named() -> None:
    assert found(PLANNED, policy=SocketMountPolicy.REFUSE) == ()


@pytest.mark.parametrize("policy", SocketMountPolicy)
def test_a_mounted_socket_is_named_and_forbids_what_shall_be_refused(policy: SocketMountPolicy) -> None:
    [finding] = found(MOUNTS, PLANNED, policy=policy)

    assert (finding.reason, finding.subject) == (Reason.RUNTIME_SOCKET_MOUNTED, LABEL)
    assert finding.forbids is (policy is SocketMountPolicy.REFUSE)
    assert f"mounted {SOCKET}, {SOCKET}.ttrpc as a file" in finding.detail
    assert "mount the directory" in finding.message


@pytest.mark.parametrize(("container", "then"), [(FOLLOWS, "its kubelet starts it again"), (
    replace(FOLLOWS, restarts_itself=False), "nothing starts it again, so the node is rolled back")])  # fmt: skip
def test_a_connected_container_is_named_with_what_becomes_of_it(container: PlannedContainer, then: str) -> None:
    [finding] = found(container)

    assert (finding.reason, finding.subject, finding.forbids) == (Reason.RUNTIME_CONNECTION_WOULD_BREAK, LABEL, False)
    assert then in finding.detail


def test_what_is_not_known_is_said_once_if_there_is_anybody() -> None:
    [finding] = found(PLANNED, unknown="Operation not permitted")

    assert (finding.subject, finding.forbids) == ("", False)
    assert "it is unknown which containers are connected to the runtime: Operation not permitted" in finding.detail
    assert found(unknown="Operation not permitted") == ()
