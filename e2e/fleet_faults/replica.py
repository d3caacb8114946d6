"""One process of the operator, put together as in its pod, without kopf; it dies and is started again."""

import asyncio
import contextlib
from collections.abc import Callable

from e2e.fleet_faults.proxy import Died, Proxy
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.controlplane.manager import lead
from nodeupgrade.controlplane.metrics.collector import Metrics
from nodeupgrade.controlplane.workers import reconcile_for_ever
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.fleet.caches.fleet_source import InformedFleet
from nodeupgrade.fleet.caches.informer import Timing
from nodeupgrade.fleet.caches.write_through import WriteThrough
from nodeupgrade.fleet.controllers.controllers import Controllers
from nodeupgrade.fleet.controllers.event_keys import Queues
from nodeupgrade.fleet.controllers.snapshots import GATHERING_SECONDS, RECENT_SECONDS, Snapshots
from nodeupgrade.fleet.guard.parameters import GuardWriter
from nodeupgrade.fleet.leadership.campaign import ElectionClock, Elector
from tests.doubles.passes import NoHealth


def loop_time() -> float:
    """The virtual time."""
    return asyncio.get_running_loop().time()


async def live(proxy: Proxy, identity: str) -> None:
    """Run one process until it dies.

    Raises:
        Exception: A bug in the operator.
    """
    proxy.identity = identity
    queues = Queues()
    elector = Elector(proxy, proxy.namespace, identity, clock=ElectionClock(monotonic=loop_time, utcnow=proxy.utcnow))
    proxy.may_write = elector.may_write
    fleet = InformedFleet(
        proxy, proxy.namespace, read_upgrade, on_change=queues.node_changed, timing=Timing(monotonic=loop_time)
    )
    writing, agents = WriteThrough(proxy, fleet), AgentPodSettings(namespace=proxy.namespace, image="nodeupgrade:dev")
    guard = GuardWriter(writing, agents.namespace, GATHERING_SECONDS)
    snapshots = Snapshots(
        writing, agents, fleet, guard, NoHealth(), term=elector, recent_seconds=RECENT_SECONDS, clock=loop_time
    )
    operator = Controllers(snapshots, on_slot_unused=queues.rollouts.add, on_slots=queues.in_flight)

    async def leading() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(operator.recorder.run())
                group.create_task(reconcile_for_ever(queues, operator, Metrics(), lambda _upgrade: None))
        finally:
            operator.forget()
            queues.forget()

    tasks = [asyncio.ensure_future(fleet.run()), asyncio.ensure_future(lead(elector, leading))]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        raise RuntimeError("the operator has ended by itself")
    except BaseExceptionGroup as group:
        _, others = group.split(Died)
        if others is not None:
            raise
    except Died:
        pass
    finally:
        proxy.dead = True
        for task in tasks:
            task.cancel()
        with contextlib.suppress(NodeUpgradeError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def keep_alive(name: str, new_proxy: Callable[[], Proxy], pause: Callable[[], float]) -> None:
    """Start a process again whenever it has died, as its Deployment does."""
    number = 0
    while True:
        number += 1
        await live(new_proxy(), f"operator-{name}_{number}")
        await asyncio.sleep(pause())
