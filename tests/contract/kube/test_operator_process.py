"""The operator as it is started in its pod, with its own permissions: kopf hears of an object and a pass is made."""

import asyncio
import os
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.api.upgrade.reading import parse_upgrade
from nodeupgrade.controlplane.driver import RESYNC_SECONDS
from nodeupgrade.ports.kube import UPGRADES
from tests.contract.kube.apiserver import ApiServer, free_ports
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.faulty_proxy import answers, faulty_proxy, never_arrives, says
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

STARTED = b"authentication has finished"
START_SECONDS = 120
SECONDS = RESYNC_SECONDS - 5
"""Shorter than the resync, so that only an event can have brought the news."""


@dataclass
class Operator:
    """The operator's process, and what it has said so far."""

    process: asyncio.subprocess.Process
    metrics_port: int
    said: bytes = b""
    more: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self) -> None:
        assert self.process.stdout is not None
        while chunk := await self.process.stdout.read(65536):
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

    async def handles(self, admin: KubeClient, name: str, seconds: float) -> None:
        """Create an upgrade and wait until it is looked at."""
        await admin.create(UPGRADES, upgrade_object(name, nodes={"names": ["no-such-node"]}))
        try:
            async with asyncio.timeout(seconds):
                while parse_upgrade(await admin.get(UPGRADES, name)).status.observed_generation != 1:
                    assert self.process.returncode is None
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"it does not hear: {self.said.decode()}") from None

    async def stops(self) -> None:
        """Tell it to stop, and it does."""
        self.process.terminate()
        assert await asyncio.wait_for(self.process.wait(), START_SECONDS) == 0, self.said.decode()


@asynccontextmanager
async def operator_process(kubeconfig: Path) -> AsyncIterator[Operator]:
    """Run it as its pod does, wait until kopf is about to watch, and leave nothing behind."""
    liveness, metrics = free_ports(2)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "operator"),
        "KUBECONFIG": str(kubeconfig),
        "AGENT_IMAGE": "nodeupgrade:dev",
        "LIVENESS_ENDPOINT": f"http://127.0.0.1:{liveness}/healthz",
        "METRICS_ADDRESS": f"127.0.0.1:{metrics}",
    }
    output = asyncio.subprocess.PIPE
    argv = (sys.executable, "-m", "nodeupgrade.controlplane")
    process = await asyncio.create_subprocess_exec(
        *argv, env=environment, stdout=output, stderr=asyncio.subprocess.STDOUT
    )
    operator = Operator(process, metrics)
    listening = asyncio.ensure_future(operator.listen())
    try:
        await operator.says(STARTED)
        yield operator
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await listening


async def test_hears_of_an_object_and_stops_when_told(admin: KubeClient, api_server: ApiServer) -> None:
    async with operator_process(api_server.kubeconfig("operator")) as operator:
        await operator.handles(admin, "process", SECONDS)
        told = await asyncio.to_thread(scrape, operator.metrics_port)
        for line in (
            'nodeupgrade_informer_synced{kind="Node"} 1.0',
            'nodeupgrade_informer_synced{kind="NodeUpgradeTask"} 1.0',
            'nodeupgrade_informer_synced{kind="Pod"} 1.0',
            'nodeupgrade_inflight{upgrade="process"} 0.0',
            'nodeupgrade_paused{upgrade="process"} 0.0',
        ):
            assert line in told
        await operator.stops()
    status = parse_upgrade(await admin.get(UPGRADES, "process")).status
    assert {c.reason for c in status.conditions if c.type == "Stalled"} == {"NodeNotFound"}


async def test_survives_what_kopf_does_not(admin: KubeClient, api_server: ApiServer) -> None:
    """An error in a watch other than "expired", an expired list, an outage: the same process goes on."""
    internal = b'{"type":"ERROR","object":{"kind":"Status","code":500,"message":"etcd says no"}}\n'
    async with faulty_proxy(api_server) as proxy, operator_process(proxy.kubeconfig("operator")) as operator:
        proxy.break_(lambda request: request.watching and "nodeupgrades?" in request.target, answers(200, internal))
        proxy.drop_all()
        await operator.says(b"kopf ended")
        await operator.says(STARTED)
        proxy.break_(lambda request: request.path.endswith("nodeupgrades"), says(410, "forgotten"), times=2)
        proxy.break_(lambda _: True, never_arrives, times=50)
        proxy.drop_all()
        await operator.handles(admin, "survivor", START_SECONDS)
        await operator.stops()


def scrape(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode()).splitlines()
