"""Where the lab keeps files: state per lab, a cache shared by all labs."""

import os
import re
from pathlib import Path

from e2e.lab.errors import LabError

_NAME = re.compile(r"[a-z][a-z0-9]{0,19}(-[a-z0-9]{1,10})*")


def state_root() -> Path:
    """Directory that holds one directory per running lab."""
    return Path(os.environ.get("NODEUPGRADE_LAB_STATE", "/var/lib/nodeupgrade-lab"))


def cache_root() -> Path:
    """Directory of binaries, base roots and images; safe to delete when no lab is being set up."""
    return Path(os.environ.get("NODEUPGRADE_LAB_CACHE", "/var/cache/nodeupgrade-lab"))


def default_name() -> str:
    """Return the default name of a lab."""
    return os.environ.get("NODEUPGRADE_LAB_NAME", "lab")


def check_name(name: str) -> str:
    """Return ``name`` if it is valid for a lab or a node.

    Raises:
        LabError: if it would not fit into file, cgroup and namespace names.
    """
    if not _NAME.fullmatch(name) or len(name) > 30:
        message = f"cannot use {name!r} as a name because it must be lower-case letters, digits and single dashes"
        raise LabError(message + ", start with a letter and have at most 30 characters; choose another")
    return name
