"""Several clusters are asked at once, and none of them keeps the others from an answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nodeupgrade.cli.inputs.cluster import ClusterConnection, World
from nodeupgrade.cli.inputs.clusters import REQUEST_TIMES, Answer, Clusters
from nodeupgrade.cli.program import CannotError
from nodeupgrade.cluster.kube_api import NoCredentialsError, ReviewingKube
from tests.doubles.kube import InMemoryKube

PATIENCE = 0.2
FAILURES = {
    "login": NoCredentialsError("no token"),
    "nonsense": KeyError("items"),
    "absent": CannotError("it does not exist"),
}


async def test_each_has_its_own_time_and_its_own_failure() -> None:
    """Two that hang, one in its login, take no longer than one; those that answer are heard before."""
    heard: dict[str, float] = {}

    @asynccontextmanager
    async def connect(
        _config: Path | None, context: str | None, _seconds: float, _user: str | None
    ) -> AsyncIterator[ReviewingKube]:
        if context == "hangs-in-login":
            await asyncio.sleep(3600)
        yield InMemoryKube()

    async def ask(context: str, _kube: ReviewingKube) -> str:
        if context == "hangs":
            await asyncio.sleep(3600)
        if context in FAILURES:
            raise FAILURES[context]
        return f"hello from {context}"

    connection = ClusterConnection(
        world=World(connect=connect), kubeconfig=None, context=None, request_seconds=PATIENCE
    )
    contexts = ("hangs", "hangs-in-login", *FAILURES, "answers")

    def answered(answer: Answer[str]) -> None:
        heard[answer.context] = time.monotonic()

    answers = await Clusters(connection=connection, contexts=contexts).ask(ask, answered)

    assert tuple(each.context for each in answers) == contexts
    assert [each.value for each in answers] == [None, None, None, None, None, "hello from answers"]
    assert [each.silent for each in answers] == [True, True, True, True, False, False]
    assert set(list(heard)[-2:]) == {"hangs", "hangs-in-login"}
    assert abs(heard["hangs"] - heard["hangs-in-login"]) < REQUEST_TIMES * PATIENCE


@pytest.mark.parametrize("waits", [0.0, 100 * REQUEST_TIMES * PATIENCE])
async def test_what_is_waited_for_may_take_longer(waits: float) -> None:
    @asynccontextmanager
    async def connect(
        _config: Path | None, _context: str | None, _seconds: float, _user: str | None
    ) -> AsyncIterator[ReviewingKube]:
        yield InMemoryKube()

    async def wait(_context: str, _kube: ReviewingKube) -> None:
        await asyncio.sleep(1.5 * REQUEST_TIMES * PATIENCE)

    connection = ClusterConnection(
        world=World(connect=connect), kubeconfig=None, context=None, request_seconds=PATIENCE
    )
    (answer,) = await Clusters(connection=connection, contexts=("a",)).ask(wait, waits=waits)
    assert answer.silent == (waits == 0)
