"""Starts of dockerd are held back by a lock, for as long as the process lives that holds it."""

import fcntl
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from nodeupgrade.adapters.docker import gate
from nodeupgrade.adapters.docker.gate import FLOCK, GATE, Gate
from nodeupgrade.adapters.docker.kind import DOCKER, GATE_LOCK, SOCKET_UNIT, UNIT
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.ports.node.services import ServiceManager


@dataclass
class Services:
    """Units of a node: the gate starts for as long as somebody holds the lock."""

    root: Path
    loaded: bool = True
    socket: str = "active"
    gate_begun: bool = False
    started: list[tuple[str, bool]] = field(default_factory=list)

    def status(self, unit: str) -> UnitStatus:
        states = {SOCKET_UNIT: self.socket, GATE: "activating" if self.gate_begun and self.locked() else "inactive"}
        load = "loaded" if unit != GATE or self.loaded else "not-found"
        return UnitStatus(
            name=unit, load_state=load, active_state=states.get(unit, "inactive"), sub_state="", main_pid=0
        )

    def start(self, unit: str, *, wait: bool = True) -> None:
        self.started.append((unit, wait))
        self.gate_begun = True

    def locked(self) -> bool:
        descriptor = os.open(self.root / str(GATE_LOCK).lstrip("/"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False


@pytest.fixture
def services(tmp_path: Path) -> Services:
    (tmp_path / "run").mkdir()
    program = tmp_path / FLOCK.lstrip("/")
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    return Services(tmp_path)


def gate_of(services: Services) -> Gate:
    return Gate(HostFiles(services.root), cast("ServiceManager", services))


def test_it_is_closed_while_the_lock_is_held_and_once_however_often_it_is_asked(services: Services) -> None:
    held = gate_of(services)

    assert (held.close(), held.close()) == (True, True)
    assert services.started == [(GATE, False)]
    held.open()
    held.open()
    assert not services.locked()


def test_without_the_runs_units_nothing_is_held_back(services: Services) -> None:
    services.loaded = False

    assert not gate_of(services).close()
    assert not services.locked()


def test_a_process_that_dies_holds_nothing_back(services: Services) -> None:
    path = services.root / str(GATE_LOCK).lstrip("/")
    path.touch()
    with subprocess.Popen(["flock", "--no-fork", str(path), "sleep", "60"]) as other:
        while not services.locked():
            pass
        with pytest.raises(StepFailed, match="cannot hold back"):
            gate_of(services).close()
        other.kill()
    assert gate_of(services).close()


def test_there_is_one_where_systemd_opens_the_socket(services: Services) -> None:
    found = gate.find(HostFiles(services.root), cast("ServiceManager", services))

    assert {PurePosixPath(file.path) for file in found.files} | {GATE_LOCK} == set(DOCKER.tuning)
    assert found.drop_in == f"/run/systemd/system/{UNIT}.d/zz-nodeupgrade-gate.conf"


@pytest.mark.parametrize("lacks", ["the socket", "flock"])
def test_there_is_none_where_something_lacks(services: Services, lacks: str) -> None:
    if lacks == "flock":
        (services.root / FLOCK.lstrip("/")).unlink()
    else:
        services.socket = "inactive"

    found = gate.find(HostFiles(services.root), cast("ServiceManager", services))

    assert found.files == ()
    assert "socket" in found.why
