"""The API servers that the suite runs on: the double, and the real one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import UPGRADES
from nodeupgrade.simulation.kube import InMemoryKube
from tests.contract.kube.apiserver import ApiServer

ROOT = Path(__file__).parents[3]
# A cold cache is filled by a build of minutes.
REAL = pytest.param("real", marks=[pytest.mark.real, pytest.mark.timeout(3600)])


@pytest.fixture(params=["double", REAL])
async def kube(request: pytest.FixtureRequest) -> AsyncIterator[TypedKube]:
    if request.param == "double":
        yield InMemoryKube()
        return
    server: ApiServer = request.getfixturevalue("api_server")
    async with KubeClient.open(server.kubeconfig()) as client:
        yield client


async def forget_upgrades(kube: TypedKube) -> None:
    """Delete what other tests have left: an older NodeUpgrade over the same nodes would go first."""
    for body in await kube.list(UPGRADES):
        name = body["metadata"]["name"]
        if body["metadata"].get("finalizers"):
            await kube.merge(UPGRADES, name, {"metadata": {"finalizers": None}})
        await kube.delete(UPGRADES, name)
