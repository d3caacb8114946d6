"""What the next start of the kubelet's unit would read, with the files of the run in place."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from nodeupgrade.kubelet.layout import config_directory, is_drop_in
from nodeupgrade.kubelet.settings import Configured
from nodeupgrade.node.checks.units import paths_in, script_of
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.systemd.environment_files import is_pattern, is_undetermined, matching_files
from nodeupgrade.node.host.systemd.unit_start import UnitStart, unit_files
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.names_beside import is_beside_another

IN_MEMORY = ("/dev", "/proc", "/run", "/sys", "/tmp")  # noqa: S108  - nothing is written there
"""Directories whose content may differ each time."""
SCRIPTS = frozenset({".sh", ".bash", ".py", ".pl"})
"""Files that an interpreter runs, and that need not be executable."""


def read_start(
    files: FilesView, unit: UnitStatus, more: Iterable[str] = (), directories: Iterable[str] = ()
) -> UnitStart:
    """Return how a unit would be started now, with more files, and directories in which its program looks for such."""
    named = (*unit_files(unit), *environment_files(files, unit), *more)
    found: dict[str, str] = {path: files.digest(PurePosixPath(path)) or "" for path in named if not is_pattern(path)}
    for path in filter(is_pattern, named):
        found[path] = " ".join(_matching(files, path))
    for directory in directories:
        found[f"{directory}/"] = " ".join(_names_in(files, PurePosixPath(directory)))
    return UnitStart(
        unit=unit.name,
        program=unit.program,
        commands=unit.commands,
        files=found,
        spares_others=unit.spares_others,
        bound_by=unit.bound_by,
    )


def _names_in(files: FilesView, directory: PurePosixPath) -> Iterator[str]:
    """Yield the files in and below a directory, and links, without those that a run puts beside others."""
    return (str(path.relative_to(directory)) for path in files.walk(directory) if not is_beside_another(path.name))


def run_by(files: FilesView, unit: UnitStatus, exchanged: PurePosixPath | None) -> Iterator[str]:
    """Yield the programs and scripts on disk that a unit's other commands name, except the kubelet's program."""
    for path, is_script in ((path, path == script_of(c)) for c in unit.commands for path in paths_in(c)):
        at = PurePosixPath(path)
        if not at.is_absolute() or any(at.is_relative_to(place) for place in IN_MEMORY):
            continue
        real = files.real(at)
        if real not in {None, exchanged} and (is_script or at.suffix in SCRIPTS or files.executable(at)):
            yield path


def environment_files(files: FilesView, unit: UnitStatus) -> tuple[str, ...]:
    """Return a unit's environment files; a pattern stands for those that exist."""
    return tuple(path for name, _ in unit.environment_files for path in _named(files, name))


def missing_environment_file(files: FilesView, unit: UnitStatus) -> str | None:
    """Return an environment file without which a unit does not start, and that does not exist."""
    needed = (name for name, required in unit.environment_files if required and not is_undetermined(name))
    there = files.changed
    return next((n for n in needed if all(there(PurePosixPath(path)) is None for path in _named(files, n))), None)


def _named(files: FilesView, environment_file: str) -> tuple[str, ...]:
    return _matching(files, environment_file) if is_pattern(environment_file) else (environment_file,)


def _matching(files: FilesView, pattern: str) -> tuple[str, ...]:
    """Return the files that a pattern stands for; ``walk`` finds links to files, too. Pods may write below."""
    return matching_files(pattern, map(str, files.walk(PurePosixPath(pattern).parent, deep=False)))


def config_files(files: FilesView, words: tuple[str, ...]) -> list[PurePosixPath]:
    """Return the configuration files that a kubelet with this command line reads, in order."""
    paths = [PurePosixPath(path) for path in (Configured(words=words).flag("config"),) if path]
    if (directory := config_directory(words)) is not None:
        paths += [path for path in files.walk(PurePosixPath(directory)) if is_drop_in(path.name)]
    return paths


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
