"""The names of files that a run puts beside another: in the same directory, for a rename, and hidden.

Neither systemd nor a kubelet reads files with such names.
"""

from collections.abc import Callable
from pathlib import PurePath, PurePosixPath
from secrets import token_hex
from typing import TypeVar

STAGED, PREVIOUS = ".nodeupgrade-staged", ".nodeupgrade-previous"
UNFINISHED, ASIDE = ".nodeupgrade-new", ".nodeupgrade-aside"

_Path = TypeVar("_Path", bound=PurePath)
_Either = TypeVar("_Either", str, PurePosixPath)


def staged_path(path: _Either) -> _Either:
    """Return where the file is staged that will be put in place of another."""
    return type(path)(beside(PurePosixPath(path), STAGED))


def backup_path(path: _Either) -> _Either:
    """Return where an old file is kept: an exchanged one until the run is over, a program until the next run."""
    return type(path)(beside(PurePosixPath(path), PREVIOUS))


def beside(path: _Path, suffix: str) -> _Path:
    """Return a hidden name beside a file."""
    return path.with_name(f".{path.name}{suffix}")


def free_aside(path: _Path, is_there: Callable[[_Path], bool]) -> _Path:
    """Return a name, which nothing has yet, for what lies in the way at a path.

    Pods may have taken any number of the names that they can guess.
    """
    plain = beside(path, ASIDE)
    return beside(path, f"{ASIDE}-{token_hex(8)}") if is_there(plain) else plain


def hidden_aside() -> str:
    """Return a name, short and unforeseeable, for what lies in the way in a directory that others write."""
    return f".{token_hex(8)}{ASIDE}"


def is_beside_another(name: str) -> bool:
    """Report whether a file of this name is one that a run puts beside another."""
    return name.startswith(".") and ".nodeupgrade-" in name
