"""The real API server of the contract suites, with our CRDs and our RBAC: one for all of them."""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.lab.cluster.definitions import OURS, wait_until_established
from e2e.lab.errors import LabError
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.cluster.typed_objects import TypedKube
from tests.contract.kube.apiserver import ApiServer, running

MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.fixture(scope="package")
def api_server() -> Iterator[ApiServer]:
    with serving(MANIFESTS) as server:
        yield server


@contextmanager
def serving(manifests: Path) -> Iterator[ApiServer]:
    """A real API server with what we install; the test is skipped where there is none, unless one is required."""
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(running())
        except (LabError, FileNotFoundError) as error:
            if os.environ.get("NODEUPGRADE_E2E") == "required":
                raise
            pytest.skip(f"no kube-apiserver: {error}")
        server.kubectl("apply", "-k", str(manifests))
        wait_until_established(server.kubectl, *OURS)
        yield server


@pytest.fixture
async def admin(api_server: ApiServer) -> AsyncIterator[KubeClient]:
    """Who may do everything, on an API server without a NodeUpgrade: an operator would look after it, too."""
    async with KubeClient.open(api_server.kubeconfig()) as kube:
        await forget_upgrades(kube)
        yield kube


async def forget_upgrades(kube: TypedKube) -> None:
    """Delete what other tests have left: an older NodeUpgrade over the same nodes would go first."""
    for body in await kube.list(UPGRADES):
        name = body["metadata"]["name"]
        if body["metadata"].get("finalizers"):
            await kube.merge(UPGRADES, name, {"metadata": {"finalizers": None}})
        await kube.delete(UPGRADES, name)
