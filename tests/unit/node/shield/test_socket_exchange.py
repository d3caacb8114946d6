"""Tests for the socket exchange: the next raise or lower completes whatever an interruption leaves."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.shield.socket_exchange import Exchange, accepts
from tests.builders.shield_sockets import KEPT, RUNTIME, SHIELD, Killed, Mortal, Rig, fresh

LOCKING = """
    import fcntl, sys
    lock = open(sys.argv[1], "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
    """
RAISING = """
    import sys
    from pathlib import Path
    from nodeupgrade.node.shield.socket_exchange import Exchange
    path = Path(sys.argv[1])
    exchange = Exchange(path, path.parent)
    print("begins", flush=True)
    exchange.raise_up()
    """


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with ExitStack() as stack:
        yield Rig(tmp_path, stack)


def test_raising_and_lowering_may_be_repeated(rig: Rig) -> None:
    exchange = rig.exchange()
    for _ in range(2):
        exchange.raise_up()
        assert (rig.inode(), rig.inode(KEPT), rig.inode(SHIELD)) == (rig.shield, rig.runtime, rig.shield)
        assert (exchange.raised(), exchange.intended(), exchange.upstream().name) == (True, True, KEPT)
    for _ in range(2):
        exchange.lower()
        assert (rig.inode(), rig.sockets()) == (rig.runtime, {RUNTIME, SHIELD})
        assert (exchange.raised(), exchange.intended(), exchange.upstream().name) == (False, False, RUNTIME)
    exchange.raise_up()
    exchange.lower()
    assert exchange.restarts() == 0


def test_the_shield_is_as_accessible_as_the_runtime(rig: Rig) -> None:
    rig.path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(rig.path, 0, 42)
    rig.exchange().raise_up()
    shown = rig.path.stat()
    assert shown.st_mode & 0o7777 == 0o640
    assert shown.st_gid == (rig.directory / KEPT).stat().st_gid


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("then", ["raise", "lower"])
@pytest.mark.parametrize("first", ["raise", "lower"])
def test_killed_between_any_two_calls(tmp_path: Path, first: str, then: str, after: bool) -> None:
    """There is a socket that accepts connections at every moment, and the next attempt completes either."""

    def act(exchange: Exchange, what: str) -> None:
        exchange.raise_up() if what == "raise" else exchange.lower()

    for number in range(1, 100):
        with ExitStack() as stack:
            rig = fresh(tmp_path, stack, number)
            if first == "lower":
                rig.exchange().raise_up()
            mortal = Mortal(number, after=after)
            killed = False
            try:
                act(rig.exchange(mortal), first)
            except Killed:
                killed = True
            assert accepts(rig.path)
            act(rig.exchange(), then)
            expected = {RUNTIME, SHIELD, KEPT} if then == "raise" else {RUNTIME, SHIELD}
            assert rig.sockets() == expected
            assert rig.inode() == (rig.shield if then == "raise" else rig.runtime)
            assert rig.inode(KEPT) == (rig.runtime if then == "raise" else None)
        if not killed:
            assert number > (8 if first == "raise" else 4), "there was something to interrupt"
            return
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("after", [False, True])
def test_a_shield_that_takes_over_from_a_dead_one_is_killed_too(tmp_path: Path, after: bool) -> None:
    for number in range(1, 100):
        with ExitStack() as stack:
            rig = fresh(tmp_path, stack, number)
            rig.exchange().raise_up()
            rig.listening["shield"].close()
            shield = rig.listen("shield", SHIELD)
            killed = False
            try:
                rig.exchange(Mortal(number, after=after)).raise_again()
            except Killed:
                killed = True
            rig.exchange().raise_again()
            assert (rig.inode(), rig.inode(KEPT)) == (shield, rig.runtime)
            rig.exchange().lower()
            assert rig.inode() == rig.runtime
        if not killed:
            return
    pytest.fail("it never came to an end")


def test_it_is_lowered_without_its_process(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    rig.listening["shield"].close()
    assert exchange.raised()
    exchange.lower()
    assert (rig.inode(), exchange.raised()) == (rig.runtime, False)


@pytest.mark.parametrize("known", [False, True])
def test_it_is_lowered_while_its_process_starts_again(rig: Rig, *, known: bool) -> None:
    """The dead one's socket is at the path, and the new one's beside it, or nothing yet."""
    exchange = rig.exchange()
    exchange.raise_up()
    rig.listening["shield"].close()
    (rig.directory / SHIELD).unlink()
    if known:
        rig.listen("shield", SHIELD)
    assert exchange.raised()
    exchange.lower()
    assert (rig.inode(), rig.inode(KEPT)) == (rig.runtime, None)


def test_a_runtime_that_restarts_takes_its_path_and_the_shield_takes_it_again(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    assert exchange.foreign_socket() is None
    rig.listening["runtime"].close()
    second = rig.listen("runtime", RUNTIME)

    assert (exchange.raised(), exchange.upstream().name) == (False, RUNTIME)
    assert exchange.foreign_socket() == exchange.foreign_socket() is not None
    exchange.raise_again()

    assert (rig.inode(), rig.inode(KEPT), exchange.restarts()) == (rig.shield, second, 1)
    exchange.lower()
    assert (rig.inode(), rig.inode(KEPT)) == (second, None)


def test_a_runtime_that_took_its_path_is_left_there(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    rig.listening["runtime"].close()
    second = rig.listen("runtime", RUNTIME)
    exchange.lower()
    assert (rig.inode(), rig.inode(KEPT), exchange.restarts()) == (second, None, 0)


def test_a_runtime_that_stopped_and_removed_its_path(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    rig.listening["runtime"].close()
    rig.path.unlink()
    assert (exchange.raised(), exchange.foreign_socket()) == (False, None)
    exchange.lower()
    assert rig.sockets() == {SHIELD}


def test_a_path_that_somebody_removed_is_put_back(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    rig.path.unlink()
    exchange.lower()
    assert (rig.inode(), rig.inode(KEPT)) == (rig.runtime, None)


def test_what_was_not_intended_is_not_raised_again(rig: Rig) -> None:
    exchange = rig.exchange()
    assert exchange.foreign_socket() is None
    exchange.raise_again()
    assert (rig.inode(), rig.inode(KEPT)) == (rig.runtime, None)


def test_without_a_process_it_is_not_raised(rig: Rig) -> None:
    rig.listening["shield"].close()
    assert not rig.exchange().ready()
    for gone in (False, True):
        if gone:
            (rig.directory / SHIELD).unlink()
        with pytest.raises(StepFailed, match="its process does not accept"):
            rig.exchange().raise_up()
    assert (rig.inode(), rig.inode(KEPT)) == (rig.runtime, None)


def test_without_a_runtime_it_is_neither_raised_nor_lowered(rig: Rig) -> None:
    rig.listening["runtime"].close()
    with pytest.raises(StepFailed, match="the runtime does not accept"):
        rig.exchange().raise_up()
    assert not rig.exchange().intended()

    rig.listen("runtime", RUNTIME)
    rig.exchange().raise_up()
    rig.listening["runtime"].close()
    with pytest.raises(StepFailed, match="does not answer"):
        rig.exchange(patience=0.1).lower()
    assert rig.exchange().intended()


def test_lowering_waits_for_a_runtime_that_is_being_restarted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = rig.exchange(patience=60)
    exchange.raise_up()
    rig.listening["runtime"].close()
    monkeypatch.setattr("time.sleep", lambda _seconds: rig.listen("runtime", RUNTIME))
    exchange.lower()
    assert rig.inode(KEPT) is None
    assert accepts(rig.path)


def test_nothing_can_be_raised_any_more_once_it_is_cleared(rig: Rig) -> None:
    exchange = rig.exchange()
    exchange.raise_up()
    exchange.clear()
    assert rig.sockets() == {RUNTIME}
    exchange.clear()


def test_a_runtime_whose_socket_is_lost_is_told(rig: Rig) -> None:
    rig.exchange().raise_up()
    (rig.directory / KEPT).unlink()
    with pytest.raises(StepFailed, match="own socket is gone"):
        rig.exchange().raise_up()
    with pytest.raises(StepFailed, match="does not answer"):
        rig.exchange().lower()


def test_one_exchange_at_a_time(rig: Rig) -> None:
    """Another process that holds the lock makes this one wait; its death ends that."""
    lock = rig.directory / "nodeupgrade-shield.lock"
    command = [sys.executable, "-c", textwrap.dedent(LOCKING), str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        raising = [sys.executable, "-c", textwrap.dedent(RAISING), str(rig.path)]
        with subprocess.Popen(raising, stdout=subprocess.PIPE) as waiting:
            assert waiting.stdout is not None
            waiting.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(0.2)
            assert rig.inode() == rig.runtime
            other.kill()
            assert waiting.wait(30) == 0
    assert rig.inode() == rig.shield


def test_the_executor_imports_it_without_grpc() -> None:
    program = (
        "import sys, nodeupgrade.node.shield.socket_exchange; print({'grpc', 'google', 'asyncio'} & {*sys.modules})"
    )
    seen = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600)
    assert seen.stdout.strip() == "set()"
