"""Runs a kubelet program in a cell, for a dry run."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.files.opening import resolve
from nodeupgrade.adapters.kubelet import cell
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.ports.kubelet import TrialStart

SECONDS = 20
"""To live for the program; it takes less than one."""
GRACE_SECONDS = 10.0


def isolated(root: Path, binary: PurePosixPath, trial: TrialStart) -> str:
    """Run the program and return what it prints.

    Raises:
        StepFailed: the cell could not be made, or the program did not end in time.
    """
    try:
        order = _order(root, binary, trial)
        done = subprocess.run(
            [sys.executable, "-I", "-S", cell.__file__],
            input=json.dumps(order).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS + GRACE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise StepFailed(f"{binary} did not end within {SECONDS} s") from error
    except OSError as error:
        raise StepFailed(f"{binary} could not be tried: {error.strerror or error}") from error
    output = done.stdout.decode(errors="replace")
    if done.returncode == cell.CANNOT:
        raise StepFailed(f"{binary} could not be tried: {output.strip()[-200:]}")
    if done.returncode < 0:
        raise StepFailed(f"{binary} did not end within {SECONDS} s")
    return output


def _order(root: Path, binary: PurePosixPath, trial: TrialStart) -> dict[str, object]:
    return {
        "root": str(root),
        "program": str(located(root, binary)),
        "words": trial.words,
        "environment": dict(trial.environment),
        "files": {path: base64.b64encode(data).decode("ascii") for path, data in trial.files.items()},
        "directories": trial.directories,
        "seconds": SECONDS,
    }


def located(root: Path, binary: PurePosixPath) -> Path:
    """Return where this process sees a program of the node, which may be in this very pod."""
    own = PurePosixPath(f"/proc/{os.getpid()}/root")
    return (
        Path("/") / binary.relative_to(own) if binary.is_relative_to(own) else resolve(root, binary, follow_last=True)
    )
