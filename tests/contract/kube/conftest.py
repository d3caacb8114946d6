"""The API servers that the suite runs on: the double, that of the model checker, and the real one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.typed_objects import TypedKube
from tests.contract.kube.apiserver import ApiServer
from tests.doubles.kube import InMemoryKube
from tests.model.store import Store

ROOT = Path(__file__).parents[3]
GOODBYE_SECONDS = 60
LISTENING = "0A"
# A cold cache is filled by a build of minutes.
REAL = pytest.param("real", marks=[pytest.mark.real, pytest.mark.timeout(3600)])


@pytest.fixture(autouse=True)
async def _connections_end_with_their_test(request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Let the goodbyes of TLS connections be answered that were closed in the middle of a request.

    They are answered as long as the event loop runs; afterwards Python would tell another test of them.
    """
    yield
    if request.node.get_closest_marker("real") is None:
        return
    async with asyncio.timeout(GOODBYE_SECONDS):
        while connections():  # noqa: ASYNC110 - what we wait for happens in the API server
            await asyncio.sleep(0.05)


def connections() -> set[str]:
    """Return the inodes of this process's TCP connections that still are open to it."""
    own = set[str]()
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            own.add(str(entry.readlink()))
    rows = (line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:])
    return {row[9] for row in rows if row[3] != LISTENING and f"socket:[{row[9]}]" in own}


DOUBLES = {"double": InMemoryKube, "model": Store}


@pytest.fixture(params=[*DOUBLES, REAL])
async def kube(request: pytest.FixtureRequest) -> AsyncIterator[TypedKube]:
    if (double := DOUBLES.get(request.param)) is not None:
        yield double()
        return
    server: ApiServer = request.getfixturevalue("api_server")
    async with KubeClient.open(server.kubeconfig()) as client:
        yield client
