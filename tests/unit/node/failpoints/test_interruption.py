"""Tests for failpoints: each is inert unless a test sets it, and then fires once."""

import errno
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nodeupgrade.cluster.agent_pods import VARIABLE
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import FAILPOINTS, FIRST_REWRITTEN, WRONG_HASH
from nodeupgrade.node.failpoints.interruption import failpoints, plan_failpoint
from tests.doubles.node import SimulatedNode, plan_for, pod_json

OTHER = next(name for name in FAILPOINTS if name != FIRST_REWRITTEN)


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
    while passing.is_alive() and not hit.exists():
        passing.join(timeout=0.01)
    passing.join(timeout=0.1)
    assert passing.is_alive()
    hit.unlink()
    passing.join(timeout=600)

    assert not passing.is_alive()


def test_the_process_is_killed(tmp_path: Path) -> None:
    (tmp_path / FIRST_REWRITTEN).write_text("kill")
    code = (
        "import sys\n"
        "from nodeupgrade.node.failpoints.interruption import *\n"
        "failpoints({VARIABLE: sys.argv[1]})(sys.argv[2])"
    )

    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path), FIRST_REWRITTEN], check=False, timeout=600)

    assert ended.returncode == -signal.SIGKILL


def test_a_wish_that_means_nothing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / OTHER).write_text("explode")

    with pytest.raises(ValueError, match="cannot do 'explode'"):
        failpoints({VARIABLE: str(tmp_path)})(OTHER)


PLAN = plan_for(SimulatedNode(version="v1.30.14", pods=[pod_json("web", "nginx", "log")]), "v1.33.13")
DIRECTORY = "/var/lib/failpoints"


@pytest.fixture
def armed(tmp_path: Path) -> Path:
    """The directory of failpoints, of a node whose root directory is the test's."""
    made = tmp_path / DIRECTORY[1:]
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}, {VARIABLE: "/nowhere"}])
def test_plans_are_as_planned_unless_a_test_asks(tmp_path: Path, armed: Path, environment: dict[str, str]) -> None:
    (armed / WRONG_HASH).write_text("all")

    assert plan_failpoint(environment, tmp_path)(PLAN) is PLAN


@pytest.mark.parametrize(("meant", "wrong"), [("one\n", 1), ("all", 2)])
def test_a_plan_gets_wrong_hashes_once(tmp_path: Path, armed: Path, meant: str, wrong: int) -> None:
    (armed / WRONG_HASH).write_text(meant)
    spoil = plan_failpoint({VARIABLE: DIRECTORY}, tmp_path)

    spoilt = spoil(PLAN)

    pairs = list(zip(PLAN.containers, spoilt.containers, strict=True))
    assert [new.after != old.after for old, new in pairs] == [True] * wrong + [False] * (2 - wrong)
    assert all((new.id, new.before) == (old.id, old.before) for old, new in pairs)
    assert all(int(new.after.container or "", 16) >= 0 for _, new in pairs)
    assert spoil(PLAN) is PLAN
    assert (armed / f"{WRONG_HASH}.hit").exists()


def test_a_wish_about_plans_that_means_nothing_is_an_error(tmp_path: Path, armed: Path) -> None:
    (armed / WRONG_HASH).write_text("kill")

    with pytest.raises(ValueError, match=r"cannot do .kill. at plan\.wrong-hash"):
        plan_failpoint({VARIABLE: DIRECTORY}, tmp_path)(PLAN)
