"""The operator as it is started in its pod, with its own permissions: kopf hears of an object and a pass is made.

Where it cannot go on it ends, and a fresh process goes on from what is in the API.
"""

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.object import Upgrade, parse_upgrade
from nodeupgrade.api.values import Verdict
from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import PODS, TASKS, UPGRADES, ConflictError, NotFoundError
from nodeupgrade.controlplane.serve import run
from nodeupgrade.controlplane.settings import from_environment
from tests.contract.kube.apiserver import ApiServer, free_ports
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.faulty_proxy import Harm, Request, Which, answers, faulty_proxy, never_arrives, says
from tests.contract.kube.test_rollout import remove_deleted_agents
from tests.doubles.kube_fleet import FleetSimulator
from tests.scenario.rollout.harness import NAMESPACE, upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

STARTED = b"authentication has finished"
START_SECONDS = 120
ROLLOUT_SECONDS = 300
ENTRY = ("-m", "nodeupgrade.controlplane")
WITHOUT_RESYNC = ("-c", """
import sys
from nodeupgrade.controlplane import __main__, workers
workers.RESYNC_SECONDS = 86400
sys.exit(__main__.main())
""")  # fmt: skip
"""It looks at everything at its start and once a day, so that only an event can bring news."""

INTERNAL = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd says no"}}\n'


@dataclass
class Operator:
    """The operator's process, all that it has said, and what of it nobody has waited for yet."""

    process: asyncio.subprocess.Process
    liveness_port: int
    metrics_port: int
    listening: asyncio.Future[None] = field(init=False)
    log: bytes = b""
    said: bytes = b""
    more: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.listening = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        assert self.process.stdout is not None
        while chunk := await self.process.stdout.read(65536):
            self.log += chunk
            self.said += chunk
            self.more.set()

    async def says(self, words: bytes) -> None:
        """Wait until it has said so, and forget what it said up to there."""
        try:
            async with asyncio.timeout(START_SECONDS):
                while words not in self.said:
                    self.more.clear()
                    await self.more.wait()
        except TimeoutError:
            raise AssertionError(f"it said only {self.said.decode()}") from None
        self.said = self.said.partition(words)[2]

    async def leads(self) -> None:
        """Wait until it leads: the Lease of one that was killed has to expire first."""
        async with asyncio.timeout(START_SECONDS):
            while b'"leadership_acquired"' not in self.log:
                self.more.clear()
                await self.more.wait()

    async def handles(self, admin: KubeClient, name: str) -> None:
        """Create an upgrade and wait until it is looked at."""
        await admin.create(UPGRADES, upgrade_object(name, nodes={"names": ["no-such-node"]}))
        try:
            async with asyncio.timeout(START_SECONDS):
                while parse_upgrade(await admin.get(UPGRADES, name)).status.observed_generation != 1:
                    assert self.process.returncode is None
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"it does not hear: {self.said.decode()}") from None

    @property
    def lines(self) -> list[dict[str, str]]:
        """What it has said, line by line."""
        return [json.loads(line) for line in self.log.splitlines()]

    async def stops(self) -> None:
        """Tell it to stop, and it does."""
        self.process.terminate()
        assert await self.ends() == 0, self.said.decode()

    async def ends(self) -> int:
        """Wait until it has ended, and return its exit status."""
        async with asyncio.timeout(START_SECONDS):
            await self.listening
            return await self.process.wait()


@asynccontextmanager
async def operator_process(kubeconfig: Path, entry: tuple[str, ...] = ENTRY, **more: str) -> AsyncIterator[Operator]:
    """Run it as its pod does, with more in its environment, and leave nothing behind."""
    liveness, metrics = free_ports(2)
    ours = variables(kubeconfig, liveness, metrics)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator"), **ours, **more}
    output = asyncio.subprocess.PIPE
    argv = (sys.executable, *entry)
    process = await asyncio.create_subprocess_exec(
        *argv, env=environment, stdout=output, stderr=asyncio.subprocess.STDOUT
    )
    operator = Operator(process, liveness, metrics)
    try:
        yield operator
    finally:
        if process.returncode is None:
            process.kill()
        await operator.ends()


@asynccontextmanager
async def serving_operator(kubeconfig: Path, entry: tuple[str, ...] = ENTRY) -> AsyncIterator[Operator]:
    """Run it, and wait until kopf is about to watch."""
    async with operator_process(kubeconfig, entry) as operator:
        await operator.says(STARTED)
        yield operator


def variables(kubeconfig: Path, liveness: int, metrics: int) -> dict[str, str]:
    """The environment of the operator's pod."""
    return {
        "KUBECONFIG": str(kubeconfig),
        "AGENT_IMAGE": "nodeupgrade:dev",
        "LIVENESS_ENDPOINT": f"http://127.0.0.1:{liveness}/healthz",
        "METRICS_ADDRESS": f"127.0.0.1:{metrics}",
    }


async def test_hears_of_an_object_and_stops_when_told(admin: KubeClient, api_server: ApiServer) -> None:
    async with serving_operator(api_server.kubeconfig("operator"), WITHOUT_RESYNC) as operator:
        await operator.leads()
        await operator.handles(admin, "process")
        told = await asyncio.to_thread(scrape, operator.metrics_port)
        for line in (
            'nodeupgrade_informer_synced{kind="Node"} 1.0',
            'nodeupgrade_informer_synced{kind="NodeUpgradeTask"} 1.0',
            'nodeupgrade_informer_synced{kind="Pod"} 1.0',
            'nodeupgrade_inflight{upgrade="process"} 0.0',
            'nodeupgrade_paused{upgrade="process"} 0.0',
        ):
            assert line in told
        assert await asyncio.to_thread(healthy, operator.liveness_port)
        await operator.stops()
    assert all({"event", "level", "timestamp", "logger"} <= line.keys() for line in operator.lines)
    assert {line["logger"].partition(".")[0] for line in operator.lines} == {"kopf", "nodeupgrade"}
    found = await admin.get(UPGRADES, "process")
    status = parse_upgrade(found).status
    assert {c.reason for c in status.conditions if c.type == "Stalled"} == {"NodeNotFound"}
    assert "kopf" not in json.dumps(found), "kopf keeps nothing in our objects"


def scrape(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode()).splitlines()


def healthy(port: int, seconds: float = 30) -> bool:
    """Ask as the kubelet does."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=seconds) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def becomes_healthy(port: int) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while not (reached := healthy(port)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return reached


async def test_an_outage_does_not_end_it(admin: KubeClient, api_server: ApiServer) -> None:
    """Broken connections, an expired watch, and an API server that says that it is busy."""
    expired = b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"forgotten"}}\n'
    async with faulty_proxy(api_server) as proxy, serving_operator(proxy.kubeconfig("operator")) as operator:
        proxy.break_(watches_upgrades, answers(200, expired))
        proxy.break_(lists_upgrades, says(503, "busy"), times=2)
        proxy.break_(lambda _: True, never_arrives, times=50)
        proxy.drop_all()
        await operator.handles(admin, "survivor")
        await operator.stops()


@pytest.mark.parametrize(
    "fault", [answers(200, INTERNAL), says(410, "forgotten"), says(401, "who?")], ids=["error", "410", "401"]
)
async def test_ends_where_kopf_ends(api_server: ApiServer, fault: Harm) -> None:
    """An error in a watch other than "expired", an expired list, a login that is rejected."""
    async with faulty_proxy(api_server) as proxy, serving_operator(proxy.kubeconfig("operator")) as operator:
        proxy.break_(watches_upgrades, fault)
        proxy.drop_all()
        assert await operator.ends() == 1
    (last,) = [line for line in operator.lines if line["event"] == "operator_failed"]
    assert last["level"] == "error"


def watches_upgrades(request: Request) -> bool:
    return request.watching and "nodeupgrades?" in request.target


def lists_upgrades(request: Request) -> bool:
    return request.path.endswith("nodeupgrades") and not request.watching


def watches_nodes(request: Request) -> bool:
    return request.watching and "/nodes?" in request.target


@pytest.mark.parametrize(
    ("which", "fault", "said", "remedy"),
    [
        (lists_upgrades, says(404, "no such kind"), "/nodeupgrades because the API server answers 404", "(crds/)"),
        (watches_nodes, says(403, "not you"), "/nodes because the API server answers 403", "operator-rbac.yaml"),
    ],
    ids=["no CRD", "no permission"],
)
async def test_says_what_is_missing_at_its_start_and_ends(
    api_server: ApiServer, which: Which, fault: Harm, said: str, remedy: str
) -> None:
    async with faulty_proxy(api_server) as proxy:
        proxy.break_(which, fault)
        async with operator_process(proxy.kubeconfig("operator")) as operator:
            assert await operator.ends() == 1
    (last,) = [line for line in operator.lines if line["event"] == "operator_failed"]
    assert last["level"] == "error"
    assert said in last["error"]
    assert remedy in last["error"]
    assert STARTED not in operator.log


class Rollout:
    """A rollout whose nodes do their work whether or not there is an operator."""

    def __init__(self, admin: KubeClient, api_server: ApiServer, name: str) -> None:
        self._admin, self._server, self._name = admin, api_server, name
        self._nodes = FleetSimulator(admin, NAMESPACE)

    async def begins(self, *nodes: str, **terms: Any) -> None:
        for node in nodes:
            await self._nodes.add_node(node)
            await self._nodes.add_pod(f"web-on-{node}", node)
        await self._admin.create(UPGRADES, upgrade_object(self._name, nodes={"names": list(nodes)}, **terms))

    async def upgrade(self) -> Upgrade:
        return parse_upgrade(await self._admin.get(UPGRADES, self._name))

    async def task(self, node: str) -> Task:
        return parse_task(await self._admin.get(TASKS, node))

    async def at_work(self) -> bool:
        flying = (await self.upgrade()).status.flying
        return bool(flying) and (await self.task(flying[0])).reported.phase is TaskPhase.RUNNING

    async def succeeds(self) -> bool:
        return (await self.upgrade()).status.phase == "Succeeded"

    async def goes_on_until(self, reached: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(ROLLOUT_SECONDS):
            while not await reached():
                with contextlib.suppress(ConflictError, NotFoundError):  # the operator writes at the same time
                    await self._nodes.tick()
                await remove_deleted_agents(self._admin, self._server)
                await asyncio.sleep(0.2)


async def test_nodes_in_flight_do_not_care_for_the_operator(admin: KubeClient, api_server: ApiServer) -> None:
    """It is killed in mid-rollout, and the next one ends on an error; the third finds the work done, and goes on."""
    rollout = Rollout(admin, api_server, "killed")
    await rollout.begins("killed-0", "killed-1")
    async with faulty_proxy(api_server) as proxy:
        async with serving_operator(proxy.kubeconfig("operator")) as operator:
            await rollout.goes_on_until(rollout.at_work)
            operator.process.kill()
            await operator.ends()
        (flying,) = (await rollout.upgrade()).status.flying

        async def has_ended() -> bool:
            return (await rollout.task(flying)).reported.phase is TaskPhase.SUCCEEDED

        await rollout.goes_on_until(has_ended)
        assert (await rollout.task(flying)).verdict is None, "nobody has looked"

        async with serving_operator(proxy.kubeconfig("operator")) as operator:
            proxy.break_(watches_upgrades, answers(200, INTERNAL))
            proxy.drop_all()
            assert await operator.ends() == 1
        async with serving_operator(proxy.kubeconfig("operator")) as operator:
            await rollout.goes_on_until(rollout.succeeds)
            await operator.stops()
    for node in ("killed-0", "killed-1"):
        verdict = (await rollout.task(node)).verdict
        assert verdict is not None
        assert verdict.outcome is Verdict.SUCCEEDED


async def test_agents_get_the_image_of_its_own_pod(admin: KubeClient, api_server: ApiServer) -> None:
    image = f"registry.example/op@sha256:{'a' * 64}"
    spec = {"containers": [{"name": "operator", "image": image}]}
    await admin.create(PODS.within(NAMESPACE), {"metadata": {"name": "operator-0"}, "spec": spec})
    rollout = Rollout(admin, api_server, "image")
    await rollout.begins("image-0")
    agents = list[Json]()

    async def has_an_agent() -> bool:
        agents[:] = await admin.list(PODS.within(NAMESPACE), labels=AGENT_LABELS)
        return bool(agents)

    async with operator_process(api_server.kubeconfig("operator"), AGENT_IMAGE="", POD_NAME="operator-0") as operator:
        await rollout.goes_on_until(has_an_agent)
        await operator.stops()
    assert image in {each["image"] for agent in agents for each in agent["spec"]["containers"]}
    await admin.delete(PODS.within(NAMESPACE), "operator-0")


async def test_the_probe_tells_when_the_loop_hangs(admin: KubeClient, api_server: ApiServer) -> None:
    """Metrics are served by a thread and answer all the same; what does the work answers the probe."""
    liveness, metrics = free_ports(2)
    settings = from_environment(variables(api_server.kubeconfig("operator"), liveness, metrics))
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    running = asyncio.ensure_future(run(settings, stop))
    assert await asyncio.to_thread(becomes_healthy, liveness)
    hanging = threading.Event()

    def hang() -> None:
        hanging.set()
        time.sleep(5)

    def probe() -> tuple[bool, list[str]]:
        assert hanging.wait(START_SECONDS)
        return healthy(liveness, 1), scrape(metrics)

    asked = loop.run_in_executor(None, probe)
    loop.call_later(0.1, hang)
    answered, told = await asked
    assert not answered
    assert any(line.startswith("nodeupgrade_queue_depth ") for line in told)
    assert await asyncio.to_thread(healthy, liveness)
    stop.set()
    assert await running
