"""Failpoints of the real executor: inert unless asked for, and then each strikes once."""

import errno
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nodeupgrade.adapters.failpoints import VARIABLE, failpoints
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.run.failpoints import FAILPOINTS, FIRST_REWRITTEN

OTHER = next(name for name in FAILPOINTS if name != FIRST_REWRITTEN)


def test_names_are_unique() -> None:
    assert len(set(FAILPOINTS)) == len(FAILPOINTS)


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}, {VARIABLE: "/nowhere"}])
def test_they_are_inert_unless_a_test_asks(environment: dict[str, str]) -> None:
    for name in FAILPOINTS:
        failpoints(environment)(name)


def test_a_full_disk_is_met_once(tmp_path: Path) -> None:
    (tmp_path / FIRST_REWRITTEN).write_text("enospc\n")
    strike = failpoints({VARIABLE: str(tmp_path)})

    strike(OTHER)
    with pytest.raises(StepFailed, match="No space left") as failed:
        strike(FIRST_REWRITTEN)
    strike(FIRST_REWRITTEN)

    assert isinstance(failed.value.__cause__, OSError)
    assert failed.value.__cause__.errno == errno.ENOSPC
    assert (tmp_path / f"{FIRST_REWRITTEN}.hit").exists()


def test_it_hangs_until_it_is_released(tmp_path: Path) -> None:
    hit = tmp_path / f"{FIRST_REWRITTEN}.hit"
    (tmp_path / FIRST_REWRITTEN).write_text("hang")
    passing = threading.Thread(target=failpoints({VARIABLE: str(tmp_path)}), args=(FIRST_REWRITTEN,))

    passing.start()
    passing.join(timeout=0.1)
    assert passing.is_alive()
    assert hit.exists()
    hit.unlink()
    passing.join(timeout=10)

    assert not passing.is_alive()


def test_the_process_is_killed(tmp_path: Path) -> None:
    (tmp_path / FIRST_REWRITTEN).write_text("kill")
    code = "import sys; from nodeupgrade.adapters.failpoints import *; failpoints({VARIABLE: sys.argv[1]})(sys.argv[2])"

    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path), FIRST_REWRITTEN], check=False, timeout=60)

    assert ended.returncode == -signal.SIGKILL


def test_a_wish_that_means_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / OTHER).write_text("explode")

    with pytest.raises(ValueError, match="cannot do 'explode'"):
        failpoints({VARIABLE: str(tmp_path)})(OTHER)
