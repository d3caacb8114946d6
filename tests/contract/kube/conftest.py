"""The API servers that the suite runs on: the double, and a real one with our CRDs and our RBAC."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.lab.errors import LabError
from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.engine.typed_kube import TypedKube
from nodeupgrade.ports.kube import UPGRADES
from nodeupgrade.simulation.kube import InMemoryKube
from tests.contract.kube.apiserver import ApiServer, running

ROOT = Path(__file__).parents[3]
# A cold cache is filled by a build of minutes.
REAL = pytest.param("real", marks=[pytest.mark.real, pytest.mark.timeout(3600)])


@pytest.fixture(scope="package")
def api_server() -> Iterator[ApiServer]:
    with serving(ROOT / "manifests") as server:
        yield server


@contextmanager
def serving(manifests: Path) -> Iterator[ApiServer]:
    """A real API server with what we install; the test is skipped where there is none, unless one is required."""
    try:
        with running() as server:
            server.kubectl("apply", "-k", str(manifests))
            waiting = "--for=condition=Established", "--timeout=180s"
            server.kubectl("wait", *waiting, "crd/nodeupgrades.nodeupgrade.dev", "crd/nodeupgradetasks.nodeupgrade.dev")
            yield server
    except (LabError, FileNotFoundError) as error:
        if os.environ.get("NODEUPGRADE_E2E") == "required":
            raise
        pytest.skip(f"no kube-apiserver: {error}")


@pytest.fixture
async def admin(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    async with KubeClient.open(api_server.kubeconfig()) as kube:
        yield kube


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
