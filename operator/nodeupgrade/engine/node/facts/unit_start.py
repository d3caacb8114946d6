"""Read everything that a start of a unit would read. Changes nothing."""

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import PurePosixPath

from nodeupgrade.domain.node.units.start import UnitStart, unit_files
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.ports.node.files import FilesView


def read_start(
    files: FilesView, unit: UnitStatus, more: Iterable[str] = (), directories: Iterable[str] = ()
) -> UnitStart:
    """Return how a unit would be started now.

    Args:
        more: further files that its program reads.
        directories: directories in which the program looks for such files.
    """
    content = {path: files.read(PurePosixPath(path)) for path in (*unit_files(unit), *more)}
    found = {path: "" if data is None else sha256(data).hexdigest() for path, data in content.items()}
    for directory in directories:
        found[f"{directory}/"] = " ".join(path.name for path in files.list(PurePosixPath(directory)))
    return UnitStart(unit=unit.name, program=unit.program, commands=unit.commands, files=found)


def read_again(files: FilesView, unit: UnitStatus, planned: UnitStart) -> UnitStart:
    """Read again everything that was read for the plan; a file that vanished or appeared is a difference."""
    own = set(unit_files(unit))
    rest = [path for path in planned.files if path not in own]
    now = read_start(
        files,
        unit,
        (path for path in rest if not path.endswith("/")),
        (path.removesuffix("/") for path in rest if path.endswith("/")),
    )
    return replace(now, digest=planned.digest)
