import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import ForbiddenError
from nodeupgrade.controlplane import manager as managers
from nodeupgrade.controlplane.manager import Manager
from nodeupgrade.controlplane.metrics.collector import Metrics
from nodeupgrade.controlplane.wiring import OperatorSettings
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.upgrade_cache import UpgradeCache
from nodeupgrade.fleet.controllers.controllers import Controllers
from tests.builders.manifests import MANIFESTS
from tests.doubles.kube import InMemoryKube
from tests.doubles.passes import snapshots_of

SETTINGS = OperatorSettings(agents=AgentPodSettings(namespace="nodeupgrade-system", image="nodeupgrade:dev"))


@dataclass
class Fleet:
    """Informers that can be made to end."""

    end: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    upgrades: UpgradeCache = field(default_factory=lambda: UpgradeCache(InMemoryKube(), read_upgrade))

    async def run(self) -> None:
        await self.end


class Endless:
    """A task that goes on."""

    async def run(self) -> None:
        await asyncio.Event().wait()

    def offer(self, upgrade: Upgrade) -> None:
        """Tell nobody."""


class Leader:
    """The only candidate."""

    epoch = "1"
    released = False

    async def campaign(self) -> None:
        pass

    async def keep(self) -> None:
        await asyncio.Event().wait()

    async def release(self) -> None:
        self.released = True


class Login:
    """A client with a session."""

    def session(self) -> object:
        return object()


@dataclass
class Plane:
    """A control plane without an API server."""

    refuses: bool = False
    closed: bool = False
    fleet: Fleet = field(default_factory=Fleet)
    health: Endless = field(default_factory=Endless)
    notifier: Endless = field(default_factory=Endless)
    controllers: Controllers = field(default_factory=lambda: Controllers(snapshots_of(InMemoryKube(), SETTINGS.agents)))
    metrics: Metrics = field(default_factory=Metrics)
    elector: Leader = field(default_factory=Leader)
    kube: Login = field(default_factory=Login)

    async def check_access(self) -> None:
        if self.refuses:
            raise ForbiddenError("nodes is forbidden")


@pytest.fixture
async def plane(monkeypatch: pytest.MonkeyPatch) -> Plane:
    made = Plane()

    @asynccontextmanager
    async def control_plane(*_: Any, **__: Any) -> AsyncIterator[Plane]:
        try:
            yield made
        finally:
            made.closed = True

    monkeypatch.setattr(managers, "control_plane", control_plane)
    return made


async def test_a_task_that_ends_ends_the_operator(plane: Plane) -> None:
    stop = asyncio.Event()
    manager = Manager(SETTINGS, stop)
    await manager.start()
    await asyncio.sleep(0)
    assert not stop.is_set()
    plane.fleet.end.set_exception(RuntimeError("a bug"))
    await asyncio.wait_for(stop.wait(), 60)
    assert manager.failed
    await manager.stop()
    assert plane.closed


async def test_a_task_that_returns_ends_the_operator_too(plane: Plane) -> None:
    stop = asyncio.Event()
    manager = Manager(SETTINGS, stop)
    await manager.start()
    plane.fleet.end.set_result(None)
    await asyncio.wait_for(stop.wait(), 60)
    assert manager.failed
    await manager.stop()


async def test_what_is_no_longer_allowed_ends_the_operator_without_a_failure(
    plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file with which none could start ends none."""
    monkeypatch.setattr(managers, "ALLOWED_SECONDS", 0.01)
    stop, file = asyncio.Event(), tmp_path / "allowed.yaml"
    file.write_text((MANIFESTS / "allowed.yaml").read_text())
    manager = Manager(replace(SETTINGS, allowed_file=file), stop)
    await manager.start()
    allowed = (MANIFESTS / "allowed.yaml").read_bytes()
    file.unlink()
    for text in (None, allowed + b"# a comment", b"{", b"\xff"):
        if text is not None:
            file.write_bytes(text)
        await asyncio.sleep(0.05)
        assert not stop.is_set()
    file.write_text("{}")
    await asyncio.wait_for(stop.wait(), 60)
    assert not manager.failed
    await manager.stop()
    assert plane.closed


async def test_tasks_that_are_stopped_are_no_failure(plane: Plane) -> None:
    stop = asyncio.Event()
    manager = Manager(SETTINGS, stop)
    await manager.start()
    await asyncio.sleep(0.01)
    await manager.stop()
    assert (manager.failed, stop.is_set(), plane.closed) == (False, False, True)
    assert plane.elector.released, "the next leader need not wait"


async def test_a_new_term_relies_on_no_nodeupgrade_that_was_cached_before(plane: Plane) -> None:
    """Another leader may have given slots to other rollouts meanwhile, of which no event has come yet."""
    manager = Manager(SETTINGS, asyncio.Event())
    before = plane.fleet.upgrades.doubts
    await manager.start()
    await asyncio.sleep(0.01)
    assert plane.fleet.upgrades.doubts > before
    await manager.stop()


async def test_what_is_missing_keeps_everything_from_starting(plane: Plane) -> None:
    plane.refuses = True
    manager = Manager(SETTINGS, asyncio.Event())
    with pytest.raises(ForbiddenError):
        await manager.start()
    assert plane.closed
    assert manager.log_in() is None


async def test_there_is_one_login(plane: Plane) -> None:
    manager = Manager(SETTINGS, asyncio.Event())
    await manager.start()
    assert manager.log_in() is not None
    assert manager.log_in() is None, "it was rejected, and there is no other"
    await manager.stop()
    assert plane.closed
