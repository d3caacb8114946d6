"""systemd gets a message while the executor makes progress, and none when it does not."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeupgrade.node.host.systemd.watchdog import FEEDS, Watchdog, WatchedClock
from tests.doubles.node.timeline import SimulatedClock, Timeline

SECONDS = 0.4
ASKED = {"WATCHDOG_USEC": str(int(SECONDS * 1e6))}
STUCK = """
import os, time
from nodeupgrade.node.host.systemd.watchdog import Watchdog
with Watchdog(os.environ) as watchdog:
    watchdog.allow(0.5)
    print("begun", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def _hear(systemd: socket.socket, *, times: int) -> list[bytes]:
    return [systemd.recv(64) for _ in range(times)]


def test_systemd_hears_of_a_process_that_gets_on(systemd: socket.socket) -> None:
    with Watchdog(ASKED) as watchdog:
        watchdog.allow(600)
        assert _hear(systemd, times=3 * FEEDS) == [b"WATCHDOG=1"] * 3 * FEEDS


def test_without_a_watchdog_nothing_is_said(systemd: socket.socket) -> None:
    systemd.settimeout(0.1)
    with Watchdog({}) as watchdog:
        watchdog.allow(0)
        with pytest.raises(TimeoutError):
            systemd.recv(64)


@pytest.mark.usefixtures("systemd")
def test_no_progress_for_too_long_ends_the_process_once() -> None:
    killed: list[float] = []
    with Watchdog(ASKED, kill=lambda: killed.append(time.monotonic())) as watchdog:
        began = time.monotonic()
        watchdog.allow(0.5)
        while not killed:
            time.sleep(0.01)
        time.sleep(2 * SECONDS)

    assert len(killed) == 1
    assert killed[0] - began >= 0.5


def test_progress_and_planned_sleep_do_not(systemd: socket.socket) -> None:
    killed: list[bool] = []
    with Watchdog(ASKED, kill=lambda: killed.append(True)) as watchdog:
        watchdog.allow(1.0)
        for _ in range(10):
            systemd.recv(64)
            watchdog.progress()
        watchdog.progress(planned=600)
        _hear(systemd, times=4 * FEEDS)

    assert killed == []


def test_whoever_waits_by_the_clock_gets_on() -> None:
    said: list[float] = []
    watchdog, timeline = Watchdog({}), Timeline()
    watchdog.progress = lambda planned=0.0: said.append(planned)  # type: ignore[method-assign]

    clock = WatchedClock(SimulatedClock(timeline), watchdog)
    before = clock.monotonic()
    clock.sleep(3.0)

    assert said == [3.0, 0.0]
    assert (clock.monotonic() - before, clock.awake().seconds) == (3.0, clock.monotonic())


@pytest.mark.parametrize("number", [signal.SIGSTOP, None], ids=["frozen", "stuck"])
def test_a_real_process_goes_silent_or_ends(systemd: socket.socket, number: signal.Signals | None) -> None:
    environment = os.environ | ASKED | {"PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        if number is None:
            assert process.wait(timeout=60) == -signal.SIGKILL
            return
        process.send_signal(number)
        systemd.settimeout(5 * SECONDS)
        with pytest.raises(TimeoutError):
            _hear(systemd, times=100)
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL
