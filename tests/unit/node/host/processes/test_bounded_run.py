"""Tests how a program is run of which others decide how much it prints."""

import errno
import subprocess
import time

import pytest

from nodeupgrade.node.host.processes.bounded_run import run_bounded

ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def run(script: str, *, timeout: float = 60.0, limit: int = 1000) -> "subprocess.CompletedProcess[bytes]":
    return run_bounded(["sh", "-c", script], env=ENVIRONMENT, timeout=timeout, limit=limit)


def test_what_it_prints_and_how_it_ends_is_returned() -> None:
    done = run("echo out; echo err >&2; exit 3")

    assert (done.returncode, done.stdout, done.stderr) == (3, b"out\n", b"err\n")


def test_it_has_nothing_to_read_and_no_more_than_its_environment() -> None:
    assert run("cat; env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD=").stdout == b"PATH=/usr/bin:/bin\n"


@pytest.mark.parametrize("script", ["exec yes", "exec yes >&2", "head -c 1001 /dev/zero"])
def test_whoever_prints_more_is_killed(script: str) -> None:
    with pytest.raises(OSError, match="more than 1000 bytes") as refused:
        run(script)
    assert refused.value.errno == errno.EFBIG


@pytest.mark.parametrize("script", ["exec sleep 60", "exec >&- 2>&-; exec sleep 60", "sleep 3 & exit"])
def test_whoever_does_not_end_in_time_is_killed(script: str) -> None:
    """Even if only a child of it keeps its output open."""
    began = time.monotonic()

    with pytest.raises(subprocess.TimeoutExpired):
        run(script, timeout=0.3)
    assert time.monotonic() - began < 3


def test_a_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        run_bounded(["/nonexistent"], env=ENVIRONMENT, timeout=1.0, limit=1)
