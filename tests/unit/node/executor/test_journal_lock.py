"""Tests whether what has a journal locked is one of ours."""

import fcntl
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.api.values import RunId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.executor import journal_lock
from nodeupgrade.node.executor.units import EXECUTOR
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.host.systemd.units import UnitStatus
from tests.builders.sound import unit

RUN = RunId("run-1")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A journal that this process has locked; the state of the rescue script's unit."""
    state = ["inactive"]

    def status(_self: SystemdManager, name: str) -> UnitStatus:
        return unit(name, active_state=state[-1])

    monkeypatch.setattr(journal_lock, "RUNS", PurePosixPath(tmp_path))
    monkeypatch.setattr(SystemdManager, "status", status)
    (tmp_path / RUN).mkdir()
    path = tmp_path / RUN / "journal"
    path.write_bytes(b"")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield state


def test_who_belongs_to_no_unit_of_ours_is_a_stranger(state: list[str]) -> None:
    assert state
    assert not journal_lock.may_be_ours(RUN)


def test_an_executor_is_ours(state: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert state
    monkeypatch.setattr(ProcessTable, "units", lambda _self, _pid: ("system.slice", EXECUTOR))

    assert journal_lock.may_be_ours(RUN)


def test_the_rescue_script_has_its_lock_from_a_process_that_has_ended(state: list[str]) -> None:
    state.append("activating")

    assert journal_lock.may_be_ours(RUN)


def test_what_is_not_known_may_be_ours(state: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert state

    def fails(*_given: object) -> None:
        raise StepFailed("cannot read who locks files")

    monkeypatch.setattr(HostFiles, "lockers", fails)
    assert journal_lock.may_be_ours(RUN)
