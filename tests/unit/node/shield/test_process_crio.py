"""The shield in front of CRI-O, which does not start where anybody listens, and answers HTTP/1.1 besides gRPC."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.runtimes.crio.daemon import fetch_configuration
from tests.builders.runtime_server import connected, unary
from tests.builders.shield_rig import STOP_WEB, Rig, failure, sockets, until


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    assert rig.plan.shield is not None
    rig.plan = replace(rig.plan, shield=replace(rig.plan.shield, steps_aside=True))
    rig.protect()
    yield rig
    rig.notified.close()


async def started(rig: Rig) -> asyncio.subprocess.Process:
    """Start a CRI-O once; it ends at once if anybody listens at its path."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.contract.node.crio_process", str(rig.path), str(rig.directory / "graph"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    await process.stdout.readline()
    return process


@asynccontextmanager
async def crio(rig: Rig) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await started(rig)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def refuses(rig: Rig) -> bool:
    """Whether a call that would end a container is refused; a runtime without that container says something else."""
    async with connected(rig.path) as channel:
        error = await failure(unary(channel, "StopContainer", STOP_WEB))
        return error.code() is grpc.StatusCode.FAILED_PRECONDITION


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_a_runtime_that_ends_finds_its_path_free_and_the_shield_takes_it_again(rig: Rig, how: str) -> None:
    async with rig.serving():
        for count in range(3):
            async with crio(rig) as runtime:
                if count == 0:
                    rig.shield.raise_up()
                await until(rig.shield.raised)
                assert rig.shield.restarts() == count
                assert await refuses(rig)
                if how == "killed":
                    runtime.kill()
                    await runtime.wait()
                else:
                    await runtime.communicate(b"")
            await until(lambda: not rig.path.exists())
        rig.shield.lower()
        assert not rig.shield.raised()


async def test_a_shield_that_stays_would_keep_it_from_coming_back(rig: Rig) -> None:
    """The control."""
    assert rig.plan.shield is not None
    rig.runs.discard(rig.plan.run_id)
    rig.plan = replace(rig.plan, shield=replace(rig.plan.shield, steps_aside=False))
    rig.protect()
    async with rig.serving(), crio(rig) as runtime:
        rig.shield.raise_up()
        assert await refuses(rig)
        runtime.kill()
        await runtime.wait()

        again = await started(rig)

        _, said = await again.communicate()
        assert b"already existing connection" in said
        assert rig.shield.raised()


async def test_one_that_ends_before_the_shield_has_looked_at_it_finds_its_path_free(rig: Rig) -> None:
    async with rig.serving(), crio(rig) as runtime:
        rig.shield.raise_up()
        runtime.kill()
        await runtime.wait()
        await until(lambda: not rig.path.exists())
        async with crio(rig):
            await until(rig.shield.raised)
            rig.shield.lower()


async def test_a_shield_that_starts_while_the_runtime_is_away_waits_for_it(rig: Rig) -> None:
    async with crio(rig) as runtime:
        async with rig.serving():
            rig.shield.raise_up()
        runtime.kill()
        await runtime.wait()
    async with rig.serving():
        assert not rig.shield.raised() or rig.path.exists()
        async with crio(rig) as again:
            assert again.returncode is None
            await until(rig.shield.raised)
            assert await refuses(rig)
            rig.shield.lower()


async def test_it_can_be_lowered_while_the_runtime_is_away(rig: Rig) -> None:
    async with rig.serving() as process:
        async with crio(rig) as runtime:
            rig.shield.raise_up()
            runtime.kill()
            await runtime.wait()
            await until(lambda: not rig.path.exists())
            assert rig.shield.stands_by()
        with pytest.raises(StepFailed):
            rig.shield.raise_up()
        rig.shield.lower()
        assert not rig.shield.stands_by()
        process.terminate()
        assert await process.wait() == 0
        assert sockets(rig) == {"runtime.sock.inner"}, "the server's own, which is no part of this"
        async with crio(rig):
            assert not await refuses(rig)


async def test_what_the_runtime_says_over_http_is_heard_through_the_shield(rig: Rig) -> None:
    async with rig.serving(), crio(rig):
        plainly = fetch_configuration(rig.path)
        rig.shield.raise_up()
        for _ in range(3):
            assert await asyncio.to_thread(fetch_configuration, rig.path) == plainly
        assert await refuses(rig)
        rig.shield.lower()
