"""Interrupts the executor at failpoints, for tests only. Does nothing unless the environment variable is set.

The variable names a directory. A file there with the name of a failpoint says what happens when the executor first
passes it:

=========  ===========================================================================
``kill``   the process ends as with ``kill -9``
``enospc`` the operation fails as on a full disk
``hang``   the executor blocks until the file ``NAME.hit`` is removed
=========  ===========================================================================

The file is renamed to ``NAME.hit`` first, so each failpoint triggers once and the test can see that it did.
"""

import errno
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.run.failpoints import Failpoint

VARIABLE = "NODEUPGRADE_FAILPOINTS"
LOOK_SECONDS = 0.005


def inert(_name: Failpoint) -> None:
    """Do nothing."""


def failpoints(environment: Mapping[str, str]) -> Callable[[Failpoint], None]:
    """Return the function to call at every failpoint: a no-op unless the environment names a directory."""
    root = environment.get(VARIABLE)
    if not root:
        return inert
    return lambda name: _trigger(Path(root), name)


def _trigger(root: Path, name: Failpoint) -> None:
    hit = root / f"{name}.hit"
    try:
        (root / name).rename(hit)
    except FileNotFoundError:
        return
    match hit.read_text(encoding="ascii").strip():
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "enospc":
            full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            raise StepFailed(f"cannot pass {name} because {full.strerror}") from full
        case "hang":
            while hit.exists():
                time.sleep(LOOK_SECONDS)
        case other:
            raise ValueError(f"cannot do {other!r} at {name} because it is not kill, enospc or hang")
