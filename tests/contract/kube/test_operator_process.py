"""The operator as it is started in its pod, with its own permissions: kopf hears of an object and a pass is made."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.controlplane.driver import RESYNC_SECONDS
from nodeupgrade.domain.upgrade_spec import parse_upgrade
from nodeupgrade.ports.kube import UPGRADES
from tests.contract.kube.apiserver import ApiServer, free_ports
from tests.contract.kube.conftest import ROOT
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

START_SECONDS = 120
SECONDS = RESYNC_SECONDS - 5
"""Shorter than the resync, so that only an event can have brought the news."""


async def test_hears_of_an_object_and_stops_when_told(admin: KubeClient, api_server: ApiServer) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "operator"),
        "KUBECONFIG": str(api_server.kubeconfig("operator")),
        "AGENT_IMAGE": "nodeupgrade:dev",
        "LIVENESS_ENDPOINT": f"http://127.0.0.1:{free_ports(1)[0]}/healthz",
    }
    output = asyncio.subprocess.PIPE
    argv = (sys.executable, "-m", "nodeupgrade.controlplane")
    operator = await asyncio.create_subprocess_exec(
        *argv, env=environment, stdout=output, stderr=asyncio.subprocess.STDOUT
    )
    try:
        await started(operator)
        await admin.create(UPGRADES, upgrade_object("process", nodes={"names": ["no-such-node"]}))
        async with asyncio.timeout(SECONDS):
            while parse_upgrade(await admin.get(UPGRADES, "process")).status.observed_generation != 1:
                assert operator.returncode is None
                await asyncio.sleep(0.1)
        operator.terminate()
        said, _ = await asyncio.wait_for(operator.communicate(), SECONDS)
        assert operator.returncode == 0, said.decode()
    finally:
        if operator.returncode is None:
            operator.kill()
            await operator.wait()
    status = parse_upgrade(await admin.get(UPGRADES, "process")).status
    assert {c.reason for c in status.conditions if c.type == "Stalled"} == {"NodeNotFound"}


async def started(operator: asyncio.subprocess.Process) -> None:
    """Wait until kopf is about to watch, so that what follows is no part of the first resync."""
    assert operator.stdout is not None
    async with asyncio.timeout(START_SECONDS):
        while line := await operator.stdout.readline():
            if b"authentication has finished" in line:
                return
    raise AssertionError("the operator ended at once")
