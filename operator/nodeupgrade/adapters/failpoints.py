"""Interrupts the executor where a test asks for it. Only for tests; without the environment variable it is inert.

The variable names a directory. A file there that has the name of a failpoint says what happens when the executor
passes it for the first time:

=========  ===========================================================================
``kill``   the process ends as by ``kill -9``
``enospc`` the operation fails as on a full disk
``hang``   nothing goes on until the file ``NAME.hit`` is removed
=========  ===========================================================================

The file is renamed to ``NAME.hit`` before anything happens, so that each strikes once and a test sees that it did.
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
    """Go on."""


def failpoints(environment: Mapping[str, str]) -> Callable[[Failpoint], None]:
    """What the executor does at every failpoint: nothing, unless the environment names a directory."""
    root = environment.get(VARIABLE)
    if not root:
        return inert
    return lambda name: _strike(Path(root), name)


def _strike(root: Path, name: Failpoint) -> None:
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
