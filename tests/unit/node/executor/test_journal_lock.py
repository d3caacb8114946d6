"""Tests whether who has a journal locked may be one of ours."""

import os
from typing import Any

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.executor import journal_lock
from nodeupgrade.node.executor.units import EXECUTOR
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import SPARE_EXECUTOR
from nodeupgrade.node.rescue import script
from tests.builders.sound import unit

DOWN: dict[str, Any] = {"active_state": "inactive", "main_pid": 0}


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """The units of ours that run: this process is the executor."""
    units: dict[str, dict[str, Any]] = {EXECUTOR: {"main_pid": os.getpid()}}

    def status(_self: SystemdManager, name: str) -> UnitStatus:
        return unit(name, **units.get(name, DOWN))

    monkeypatch.setattr(SystemdManager, "status", status)
    return units


def fails(*_given: object) -> None:
    raise StepFailed("cannot be read")


def test_where_nothing_else_of_ours_runs_it_is_a_strangers(
    units: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a pod does to the list of locks."""
    assert units
    monkeypatch.setattr(HostFiles, "lockers", fails)

    assert not journal_lock.may_be_ours()


@pytest.mark.parametrize("name", [EXECUTOR, SPARE_EXECUTOR])
def test_another_executor_has_it(units: dict[str, dict[str, Any]], name: str) -> None:
    units[name] = {"main_pid": 7}

    assert journal_lock.may_be_ours()


@pytest.mark.parametrize("name", [SPARE_EXECUTOR, script.UNIT])
def test_what_is_about_to_start_or_to_end_may_have_it(units: dict[str, dict[str, Any]], name: str) -> None:
    """The rescue script has its lock from a process that has ended."""
    units[name] = {"active_state": "activating", "main_pid": 0}

    assert journal_lock.may_be_ours()


def test_what_is_not_known_may_be_ours(units: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    assert units
    monkeypatch.setattr(SystemdManager, "status", fails)

    assert journal_lock.may_be_ours()
