"""The shield's process between a client and a runtime, as systemd starts and ends it."""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.exit_codes import EXIT_NEEDS_A_HUMAN
from nodeupgrade.node.shield.process import GRACE
from tests.builders.runtime_server import Runtime, connected, running, unary
from tests.builders.shield_rig import STOP_WEB, WITHOUT_BUNDLE, Rig, failure, sockets, until
from tests.builders.shielded import WEB


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.notified.close()


async def test_it_guards_from_raising_to_lowering(rig: Rig) -> None:
    rig.protect()
    async with running(rig.path, Runtime()) as runtime, rig.serving() as process:
        rig.path.chmod(0o600)
        rig.shield.raise_up()
        assert rig.shield.raised()
        async with connected(rig.path) as channel:
            assert await unary(channel, "Version", b"x") == b"x"
            error = await failure(unary(channel, "StopContainer", STOP_WEB))
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
            assert [str(call) for call in rig.shield.refused()] == ["stop a/web/c"]
            assert rig.runs.owner_changes_wanted(rig.plan.run_id)
            rig.runs.report_owner_changes(rig.plan.run_id, Evidence(deleted=(WEB.uid,)))
            assert await unary(channel, "StopContainer", STOP_WEB) == STOP_WEB
            assert [path.rpartition("/")[2] for path, _ in runtime.asked] == ["Version", "StopContainer"]

            rig.shield.lower()
            assert await unary(channel, "Version", b"y") == b"y", "connections go on"
        process.terminate()
        assert await process.wait() == 0
        assert sockets(rig) == {"runtime.sock"}
        assert not rig.own.exists(), "systemd leaves it if the unit's file was deleted meanwhile"


async def test_it_serves_and_ends_without_its_bundle(rig: Rig) -> None:
    """A cleaning tool may remove that; nothing may be imported on first use."""
    rig.protect()
    async with running(rig.path, Runtime()):
        process = await rig.start(run=("-c", WITHOUT_BUNDLE))
        rig.shield.raise_up()
        async with connected(rig.path) as channel:
            assert await unary(channel, "Version", b"x") == b"x"
            error = await failure(unary(channel, "StopContainer", STOP_WEB))
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        process.terminate()
        assert await process.wait() == 0


async def test_it_is_not_raised_where_it_can_pass_on_nothing(rig: Rig) -> None:
    """As after ``rm -rf /run/nodeupgrade*``: no kubelet could start behind it."""
    rig.protect()
    async with running(rig.path, Runtime()), rig.serving():
        rig.shield.raise_up()
        shutil.rmtree(rig.own)
        rig.shield.lower()

        assert not rig.shield.ready()
        with pytest.raises(StepFailed, match="can pass on nothing"):
            rig.shield.raise_up()
        async with connected(rig.path) as channel:
            assert await unary(channel, "Version", b"x") == b"x"


async def test_sigterm_lowers_it_and_lets_calls_end(rig: Rig) -> None:
    rig.protect()
    async with running(rig.path, Runtime()) as runtime, rig.serving(patience=60) as process:
        rig.shield.raise_up()
        async with connected(rig.path) as channel:
            call = unary(channel, "Status")
            refused = asyncio.ensure_future(unary(channel, "StopContainer", STOP_WEB))
            await runtime.waiting.wait()
            await until(lambda: rig.runs.owner_changes_wanted(rig.plan.run_id))
            process.terminate()
            await until(lambda: not rig.shield.raised())
            assert await refused == STOP_WEB, "who waits for an excuse needs none any more"
            runtime.go_on.set()
            assert await call == b"at last"
        assert await process.wait() == 0
        assert rig.shield.refused() == ()
        async with connected(rig.path) as channel:
            assert await unary(channel, "Version", b"x") == b"x"


async def test_a_call_of_the_kubelet_is_served_to_its_end(rig: Rig) -> None:
    """A preStop hook that takes longer than streams get."""
    rig.protect(kubelet=True)
    async with running(rig.path, Runtime()) as runtime, rig.serving() as process:
        rig.shield.raise_up()
        async with connected(rig.path) as channel:
            call = unary(channel, "Status")
            await runtime.waiting.wait()
            process.terminate()
            await until(lambda: not rig.shield.raised())
            await asyncio.sleep(GRACE + 1)
            assert (process.returncode, call.done()) == (None, False)
            assert not rig.shield.ready(), "nobody else is served"
            runtime.go_on.set()
            assert await call == b"at last"
        assert await process.wait() == 0
    assert not (rig.directory / "nodeupgrade-shield.sock").exists()


async def test_whoever_else_calls_is_named_and_not_waited_for(rig: Rig) -> None:
    rig.protect()
    async with running(rig.path, Runtime()) as runtime, rig.serving() as process:
        rig.shield.raise_up()
        async with connected(rig.path) as channel:
            await failure(unary(channel, "StopContainer", STOP_WEB))
            [refused] = rig.shield.refused()
            assert f"(process {os.getpid()}" in refused.caller
            call = unary(channel, "Status")
            await runtime.waiting.wait()
            process.terminate()
            error = await failure(call)
            assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert await process.wait() == 0


async def test_killed_and_started_again_it_is_raised_again(rig: Rig) -> None:
    rig.protect()
    async with running(rig.path, Runtime()):
        async with rig.serving() as process:
            rig.shield.raise_up()
            process.kill()
            await process.wait()
        assert (rig.shield.raised(), rig.shield.ready()) == (True, False)
        async with rig.serving(), connected(rig.path) as channel:
            assert (rig.shield.raised(), rig.shield.ready(), rig.shield.restarts()) == (True, True, 0)
            error = await failure(unary(channel, "StopContainer", STOP_WEB))
            assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
            rig.shield.lower()


async def test_a_runtime_that_restarts_stays_behind_it(rig: Rig) -> None:
    """The client's connection is to the shield throughout, so that no call gets past it."""
    rig.protect()
    async with rig.serving() as process, connected(rig.path) as channel:
        for count in range(3):
            async with running(rig.path, Runtime(f"runtime {count}")):
                if count == 0:
                    rig.shield.raise_up()
                await until(rig.shield.raised)
                call = unary(channel, "Version", b"x")
                assert await call == b"x"
                assert dict(await call.initial_metadata()) == {"began": f"runtime {count}"}
                error = await failure(unary(channel, "StopContainer", STOP_WEB))
                assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
                assert rig.shield.restarts() == count
            error = await failure(unary(channel, "Version", b"x"))
            assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert not rig.path.exists(), "a runtime that ends removes its path, whoever's socket is there"
        rig.shield.lower()
        process.terminate()
        assert await process.wait() == 0
    assert sockets(rig) == set()


async def test_without_an_unfinished_run_it_lowers_what_was_left(rig: Rig) -> None:
    rig.protect()
    async with running(rig.path, Runtime()):
        async with rig.serving():
            rig.shield.raise_up()
        rig.runs.discard(rig.plan.run_id)
        process = await rig.start()
        assert await process.wait() == 0
        assert sockets(rig) == {"runtime.sock"}
        async with connected(rig.path) as channel:
            assert await unary(channel, "Version", b"x") == b"x"


async def test_it_ends_in_failure_if_it_cannot_be_lowered(rig: Rig) -> None:
    rig.protect()
    async with rig.serving() as process:
        async with running(rig.path, Runtime()):
            rig.shield.raise_up()
            kept = rig.path.rename(rig.directory / "away.sock")  # the runtime will not remove it when it ends
        kept.unlink(missing_ok=True)
        os.link(rig.directory / "nodeupgrade-shield.sock", rig.path)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 1


async def test_a_plan_that_cannot_be_read_needs_a_human(rig: Rig) -> None:
    rig.protect()
    (rig.directory / "runs" / rig.plan.run_id / "plan.json").write_text("{")
    async with running(rig.path, Runtime()), rig.serving() as process:
        assert await process.wait() == EXIT_NEEDS_A_HUMAN
