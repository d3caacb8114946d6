"""Interrupts the executor at failpoints, and spoils plans, for tests only.

Does nothing unless the environment variable names a directory on the node. A file there with the name of a failpoint
says what happens when the executor first passes it:

=========  ===========================================================================
``kill``   the process ends as with ``kill -9``
``enospc`` the operation fails as on a full disk
``hang``   the executor waits until the file ``NAME.hit`` is removed
``stick``  the executor blocks for ever, as on a disk that hangs
=========  ===========================================================================

A file ``plan.wrong-hash`` there lets the agent plan a wrong hash for ``one`` container or for ``all``, as a mistake in
computing hashes would. No other failpoint concerns the agent.

The file is renamed to ``NAME.hit`` first, so each failpoint triggers once and the test can see that it did.
"""

import errno
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from nodeupgrade.cluster.agent_pods import VARIABLE
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import WRONG_HASH, Failpoint
from nodeupgrade.node.plan.plan import PlannedContainer, RunPlan
from nodeupgrade.text import trimmed

LOOK_SECONDS = 0.005


def failpoints(
    environment: Mapping[str, str], progress: Callable[[], None] = lambda: None
) -> Callable[[Failpoint], None]:
    """Return the function to call at every failpoint: a no-op unless the environment names a directory.

    Args:
        progress: called again and again while the executor waits, to show that it is not stuck.
    """
    root = environment.get(VARIABLE)
    return (lambda name: _trigger(Path(root), name, progress)) if root else (lambda _name: None)


def plan_failpoint(environment: Mapping[str, str], host: Path) -> Callable[[RunPlan], RunPlan]:
    """Return the function that every new plan passes through: it does nothing unless the environment names a directory.

    Args:
        host: mount point of the node's root directory.
    """
    root = environment.get(VARIABLE)
    return (lambda plan: _spoilt(host / PurePosixPath(root).relative_to("/"), plan)) if root else (lambda plan: plan)


def _spoilt(root: Path, plan: RunPlan) -> RunPlan:
    hit = _hit(root, WRONG_HASH)
    if hit is None:
        return plan
    hashed = [container.id for container in plan.containers if container.after.container and not container.expendable]
    match trimmed(hit.read_bytes().decode()):
        case "one":
            meant = hashed[:1]
        case "all":
            meant = hashed
        case other:
            raise ValueError(f"cannot do {other!r} at {WRONG_HASH} because it is not one or all")
    return replace(plan, containers=tuple(_wrong(each) if each.id in meant else each for each in plan.containers))


def _wrong(container: PlannedContainer) -> PlannedContainer:
    wrong = HashValue("1" if container.after.container != "1" else "2")
    return replace(container, after=replace(container.after, container=wrong))


def _hit(root: Path, name: Failpoint) -> Path | None:
    """Return the file of a failpoint that triggers now, under the name that it has from then on."""
    hit = root / f"{name}.hit"
    try:
        (root / name).rename(hit)
    except FileNotFoundError:
        return None
    return hit


def _trigger(root: Path, name: Failpoint, progress: Callable[[], None]) -> None:
    if (hit := _hit(root, name)) is None:
        return
    match trimmed(hit.read_bytes().decode()):
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "enospc":
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise StepFailed(f"cannot pass {name} because {full.strerror}") from full
        case "hang":
            while hit.exists():
                progress()
                time.sleep(LOOK_SECONDS)
        case "stick":
            while True:
                signal.pause()
        case other:
            raise ValueError(f"cannot do {other!r} at {name} because it is not kill, enospc, hang or stick")
