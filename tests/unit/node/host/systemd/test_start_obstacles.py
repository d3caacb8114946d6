"""Tests what keeps a unit from being started again, as systemd 252 was seen to start it or not."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.systemd.start_obstacles import StartObstacles, start_obstacles
from nodeupgrade.node.host.systemd.units import UnitStatus
from tests.builders.sound import unit


class Services:
    """As much of a service manager as this asks."""

    def __init__(self, *units: UnitStatus) -> None:
        self.units = {each.name: each for each in units}

    def status(self, name: str) -> UnitStatus:
        return self.units[name]


def of(requires: dict[str, Any], *others: UnitStatus) -> StartObstacles:
    """What keeps the kubelet from being started, which requires other units."""
    services = Services(*others)
    return start_obstacles(HostFiles(), services, unit("kubelet.service", **requires))  # type: ignore[arg-type]


def after(*names: str, **more: Any) -> dict[str, Any]:
    """Requires= and After=."""
    return {"requires": names, "awaits": names, **more}


AGAIN = "so systemd would not start kubelet.service again"
ENDED = unit("x.service", active_state="inactive")
FAILED = unit("x.service", active_state="failed")
GONE = unit("x.service", active_state="inactive", load_state="not-found")


@pytest.mark.parametrize("state", ["active", "reloading", "activating", "deactivating", "inactive", "maintenance"])
def test_what_runs_or_can_be_started_is_no_obstacle(state: str) -> None:
    """Among them a oneshot service without RemainAfterExit, which is inactive once it has ended."""
    assert of(after("x.service"), unit("x.service", active_state=state)) == StartObstacles()


@pytest.mark.parametrize(
    "name", ["x.service", "x.socket", r"srv-a\x2db.mount", "x.automount", "x.target", "-.mount", "system.slice"]
)
def test_what_has_failed_may_fail_again(name: str) -> None:
    found = of(after(name), unit(name, active_state="failed"))

    assert found == StartObstacles(probable=(f"kubelet.service requires {name}, which is failed, {AGAIN}",))


def test_a_start_that_does_not_wait_for_another_goes_on_without_it() -> None:
    """Without After, also with Requisite: the kubelet runs before the other has failed."""
    for requires in ({"requires": ("x.service",)}, {"requires": ("x.service",), "requisite": ("x.service",)}):
        assert of(requires, FAILED) == StartObstacles()


@pytest.mark.parametrize("state", ["inactive", "failed", "deactivating"])
def test_a_requisite_has_to_run_already(state: str) -> None:
    found = of(after("x.service", requisite=("x.service",)), unit("x.service", active_state=state))

    assert found.probable == (f"kubelet.service requires x.service, which is {state}, {AGAIN}",)


def test_only_the_kernel_starts_a_device() -> None:
    found = of(after("dev-x.device"), unit("dev-x.device", active_state="inactive"))

    assert found.probable == (f"kubelet.service requires dev-x.device, which is inactive, {AGAIN}",)


def test_what_a_required_unit_requires_matters_where_that_has_to_be_started() -> None:
    running = unit("a.service", **after("x.service"))
    ended = replace(running, active_state="inactive")

    assert of(after("a.service"), running, FAILED) == StartObstacles()
    assert of(after("a.service"), ended, ENDED) == StartObstacles()
    assert of(after("a.service"), ended, FAILED).probable == (
        f"a.service requires x.service, which is failed, {AGAIN}",
    )


def test_a_unit_whose_file_is_gone_matters_wherever_it_is_required() -> None:
    """Also by way of a unit that runs, and without After: "Unit x.service not found"."""
    for between in (unit("a.service", requires=("x.service",)), unit("a.service", **after("x.service"))):
        found = of({"requires": ("a.service",)}, between, GONE)
        assert found == StartObstacles(certain=(f"a.service requires x.service, which is not-found, {AGAIN}",))


def test_units_that_require_each_other_are_asked_once() -> None:
    one = unit("a.service", active_state="inactive", **after("b.service"))
    other = unit("b.service", active_state="inactive", **after("a.service", "kubelet.service"))

    assert of(after("a.service", "b.service"), one, other) == StartObstacles()


def test_what_nobody_may_start_by_hand_is_an_obstacle() -> None:
    """A unit without a file cannot be started either, which others report."""
    refused = f"kubelet.service has RefuseManualStart=yes, {AGAIN}"

    assert of({"startable": False}) == StartObstacles(certain=(refused,))
    assert of({"startable": False, "load_state": "not-found"}) == StartObstacles()
