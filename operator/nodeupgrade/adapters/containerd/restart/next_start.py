"""Finds out how containerd would start next time, from its program's own reading of its configuration."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from nodeupgrade.adapters.containerd.kind import TUNED_CONFIG
from nodeupgrade.adapters.containerd.program import Configuration, Shows
from nodeupgrade.adapters.containerd.restart.command_line import (
    PROGRAM_NAME,
    STANDARD_INPUT,
    ContainerdStart,
    is_same_start,
    read_start,
)
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.runtime import NextStart
from nodeupgrade.domain.node.runtime_info import RuntimePlaces, RuntimeProcess
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.ports.node.files import FilesView


def find(files: FilesView, shows: Shows, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
    """Ask the program on disk, with the unit's command line or, if that is unknown, the running process's."""
    command = () if running is None else running.words
    start = read_start(unit.command) or read_start(command)
    dump, complaint = _dump(files, shows, start)
    places = None if dump is None or start is None else _places(dump, start)
    if dump is not None and places is None:
        complaint = "its program does not say where it would keep its containers"
    starts_itself = not unit.program or PurePosixPath(unit.program).name == PROGRAM_NAME
    return NextStart(
        program=unit.program if start is None else start.program,
        starter="" if starts_itself else unit.program,
        as_it_runs=is_same_start(unit.command, command),
        places=places,
        complaint=complaint,
        files=() if start is None else _files(start, dump),
        directories=() if start is None else tuple(dict.fromkeys(_searched(files, PurePosixPath(start.config)))),
    )


def _dump(files: FilesView, shows: Shows, start: ContainerdStart | None) -> tuple[Configuration | None, str]:
    """Return the program's dump of its configuration, or why there is none."""
    if start is None or start.config == str(TUNED_CONFIG):
        return None, "it is started in a way that is not known"
    # ``config dump`` fails without a configuration file, so a missing one is replaced by an empty one.
    has_file = files.read(PurePosixPath(start.config)) is not None
    command = start.words(None if has_file or start.named else STANDARD_INPUT)
    try:
        dump = shows.configuration(command)
    except StepFailed as error:
        return None, f"asked for its configuration {start.config}, it says: {error}"
    return dump, "" if dump is not None else f"{start.program} does not show its configuration"


def _places(dump: Configuration, start: ContainerdStart) -> RuntimePlaces | None:
    """Return directories and socket. Flags override the configuration, and the dump does not include them."""
    flags = dict(zip(start.others[::2], start.others[1::2], strict=True))
    grpc = dump.get("grpc")
    address = grpc.get("address", "") if isinstance(grpc, Mapping) else ""
    root, state = (flags.get(f"--{name}") or dump.get(name) for name in ("root", "state"))
    if not (root and state):
        return None
    return RuntimePlaces(root=str(root), state=str(state), address=flags.get("--address") or str(address))


def _files(start: ContainerdStart, dump: Configuration | None) -> tuple[str, ...]:
    """Return the configuration file and all files that it imports, as listed by the program itself."""
    imported = dump.get("imports") if dump is not None else None
    paths = imported if isinstance(imported, list) else []
    return tuple(dict.fromkeys([start.config, *(str(path) for path in paths if path != STANDARD_INPUT)]))


def _searched(files: FilesView, config: PurePosixPath) -> Iterator[str]:
    """Yield the directories that the configuration searches for imports by a pattern."""
    try:
        patterns = tomllib.loads((files.read(config) or b"").decode()).get("imports", [])
    except ValueError:  # not TOML, which the program reports itself
        return
    for pattern in patterns if isinstance(patterns, list) else []:
        if "*" in str(pattern):
            yield str((config.parent / str(pattern)).parent)
