"""Detects unit files on disk that systemd has not loaded, even where ``NeedDaemonReload`` is ``no``.

``NeedDaemonReload`` covers the files that systemd has loaded, and new files in directories that existed then. It
stays ``no`` when the directory of a unit's first drop-in is created, and when a new unit file overrides the loaded
one (seen with systemd 252). The next daemon-reload makes such files effective, and it may be ours.
"""

import errno
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from nodeupgrade.node.host.files.resolving import resolve
from nodeupgrade.node.host.systemd.properties import strings_of

DIRECTORIES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""In order of precedence. Generated files are left out: each reload generates them again, so they are never unread."""


def has_unloaded_files(root: Path, unit: str, fragment: str, drop_ins: str) -> bool:
    """Report whether a unit has drop-ins, or an overriding unit file, that systemd has not loaded.

    Args:
        root: mount point of the node's root directory.
        fragment: path of the loaded unit file.
        drop_ins: paths of the loaded drop-ins, as systemd shows them.
    """
    loaded = {PurePosixPath(path).name for path in strings_of(drop_ins)}
    on_disk = (name for names in _drop_in_directories(unit) for name in _drop_ins_on_disk(root, names))
    return not loaded.issuperset(on_disk) or _is_shadowed(root, unit, fragment)


def _drop_in_directories(unit: str) -> Iterator[str]:
    """Yield the names of the directories of a unit's drop-ins: ``a-b.service.d``, ``a-.service.d``, ``service.d``."""
    name, _, kind = unit.rpartition(".")
    yield f"{unit}.d"
    yield from (f"{name[: at + 1]}.{kind}.d" for at, letter in enumerate(name) if letter == "-")
    yield f"{kind}.d"


def _drop_ins_on_disk(root: Path, name: str) -> set[str]:
    """Return the names of the drop-ins in the directories of one name.

    An entry that is not a file hides those of the same name in directories of lower precedence.
    """
    is_file_by_name: dict[str, bool] = {}
    for place in (PurePosixPath(directory, name) for directory in DIRECTORIES):
        resolved = _followed(root, place)
        for entry in resolved.iterdir() if resolved.is_dir() else ():
            if entry.suffix == ".conf":
                is_file_by_name.setdefault(entry.name, _followed(root, place / entry.name).is_file())
    return {name for name, is_file in is_file_by_name.items() if is_file}


def _is_shadowed(root: Path, unit: str, fragment: str) -> bool:
    if not fragment or fragment.startswith("/run/systemd/generator"):
        return False
    places = (_followed(root, PurePosixPath(directory, unit)) for directory in DIRECTORIES)
    first = next((place for place in places if place.exists()), None)
    loaded = _followed(root, PurePosixPath(fragment))
    return first is not None and loaded.exists() and first != loaded


def _followed(root: Path, place: PurePosixPath) -> Path:
    """Return where a path leads; the link itself, which is no file, if that leads in a circle."""
    try:
        return resolve(root, place, follow_last=True)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return root / place.relative_to("/")
