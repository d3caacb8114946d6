"""Unit files that lie on the disk and that systemd has not read, whatever it says.

``NeedDaemonReload`` is about the files that systemd has read, and about new ones in directories that were there then.
It stays ``no`` when somebody makes the directory of a unit's first drop-in, and when a unit file is put where it wins
over the one that was read (seen with systemd 252). Whoever reloads next makes them count, and that may be us.
"""

from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.files.confine import resolve

DIRECTORIES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
"""In the order in which they win. Generated files are written anew with each reload, and so are never unread."""


def has_unread(root: Path, unit: str, fragment: str, drop_ins: str) -> bool:
    """Whether there is more to a unit, or another file of it, than systemd has read.

    Args:
        root: where the node's root directory is seen.
        fragment: path of the unit's own file, as systemd shows it.
        drop_ins: paths of all others, likewise, with blanks between them.
    """
    known = {PurePosixPath(path).name for path in drop_ins.split()}
    lying = _lying(root, f"{unit}.d") | _lying(root, f"{unit.rpartition('.')[2]}.d")
    return bool(lying - known) or _is_shadowed(root, unit, fragment)


def _lying(root: Path, name: str) -> set[str]:
    """Names of the drop-ins of one kind; one that is no file hides those of its name further down."""
    found: dict[str, bool] = {}
    for place in (PurePosixPath(directory, name) for directory in DIRECTORIES):
        seen = resolve(root, place, follow_last=True)
        for entry in seen.iterdir() if seen.is_dir() else ():
            if entry.suffix == ".conf":
                found.setdefault(entry.name, resolve(root, place / entry.name, follow_last=True).is_file())
    return {name for name, counts in found.items() if counts}


def _is_shadowed(root: Path, unit: str, fragment: str) -> bool:
    if not fragment or fragment.startswith("/run/systemd/generator"):
        return False
    places = (resolve(root, PurePosixPath(directory, unit), follow_last=True) for directory in DIRECTORIES)
    first = next((place for place in places if place.exists()), None)
    read = resolve(root, PurePosixPath(fragment), follow_last=True)
    return first is not None and read.exists() and first != read
