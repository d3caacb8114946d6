"""Settings of the kernel, which a lab's nodes share with this machine.

A run changes them while no kubelet runs. A boot of a real node forgets that; so does one of a lab's, or the lab's end.
"""

import json
from pathlib import Path

from nodeupgrade.node.run.kernel_settings import WANTED
from nodeupgrade.node.running_kubelet.kernel_limits import path_of

_FILE = "kernel.json"


def save(directory: Path) -> None:
    """Remember the settings in a lab's directory, except those that a run of another lab has just changed."""
    found = {name: _read(name) for name, wanted in WANTED.items()}
    kept = {name: value for name, value in found.items() if value not in {None, WANTED[name]}}
    (directory / _FILE).write_text(json.dumps(kept))


def restore(directory: Path) -> None:
    """Restore those that a run has left behind."""
    if (file := directory / _FILE).exists():
        for name, value in json.loads(file.read_text()).items():
            if _read(name) == WANTED[name]:
                Path(path_of(name)).write_text(f"{value}\n")


def _read(name: str) -> int | None:
    path = Path(path_of(name))
    return int(path.read_text()) if path.exists() else None
