"""What a restart of containerd is known to cost, each found once, and what does no harm."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.adapters.containerd.restart import find_hazards
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.node.inventory import Process
from nodeupgrade.domain.node.runtime import NO_HAZARDS, RestartHazards, RuntimeAtWork, RuntimeInfo
from tests.unit.domain.node.checks.sound import instance, inventory, sandbox, unit

RUNNING = instance("1")


def containerd(version: str) -> RuntimeInfo:
    return RuntimeInfo(name="containerd", version=version, cri_versions=("v1",))


def found(**fields: Any) -> RestartHazards:
    known: dict[str, Any] = {
        "info": containerd("1.7.2"),
        "unit": unit("containerd.service"),
        "inventory": inventory(RUNNING),
        "listing_seconds": 0.1,
    }
    return find_hazards(RuntimeAtWork(**{**known, **fields}))


HAZARDS: dict[str, tuple[Reason, dict[str, Any], str]] = {
    "one that forgets addresses": (Reason.UNSUPPORTED_RUNTIME, {"info": containerd("1.6.13~ds1")}, "#7843"),
    "one that may not come back": (Reason.UNSUPPORTED_RUNTIME, {"info": containerd("2.1.3")}, "#10848"),
    "shims that answer late": (Reason.RUNTIME_NOT_READY, {"listing_seconds": 2.6}, "2.6 s"),
    "a shim that does not answer": (
        Reason.RUNTIME_NOT_READY, {"inventory": inventory(replace(RUNNING, process=None))}, "nobody knows",
    ),
    "a unit that ends its shims": (
        Reason.UNSUPPORTED_RUNTIME,
        {"unit": unit("containerd.service", kill_mode="control-group")},
        "KillMode=control-group",
    ),
    "a container with a shim of its own": (
        Reason.POD_HAS_TWO_MONITORS,
        {
            "inventory": inventory(
                replace(RUNNING, monitor=Process(pid=5, started=1)),
                sandboxes=(sandbox(monitor=Process(pid=4, started=1)),),
            )
        },
        "process 5",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "fields", "told"), HAZARDS.values(), ids=HAZARDS.keys())
def test_a_hazard_is_named_once(reason: Reason, fields: dict[str, Any], told: str) -> None:
    hazards = found(**fields)

    [finding] = [*hazards.unit, *hazards.pods, *hazards.runtime]
    assert finding.reason is reason
    assert told in finding.detail


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"info": containerd("1.6.8")},
        {"info": containerd("1.6.20~ds1-1+b1")},
        {"info": containerd("2.1.4-rc.1")},
        {"unit": unit("containerd.service", kill_mode="none")},
        {"inventory": inventory(replace(RUNNING, monitor=Process(pid=5, started=1)))},
    ],
)
def test_what_does_no_harm_is_let_pass(fields: dict[str, Any]) -> None:
    assert found(**fields) == NO_HAZARDS
