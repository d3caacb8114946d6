"""How containerd would come back from a restart, by what its own program makes of its configuration."""

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
from nodeupgrade.domain.node.host import RuntimePlaces, RuntimeProcess, UnitStatus
from nodeupgrade.domain.node.runtime import NextStart
from nodeupgrade.ports.files import FilesView


def find(files: FilesView, shows: Shows, unit: UnitStatus, running: RuntimeProcess | None) -> NextStart:
    """Ask the program on disk, started as the unit would start it; where that is not known, as it was started."""
    words = () if running is None else running.words
    start = read_start(unit.command) or read_start(words)
    shown, complaint = _shown(files, shows, start)
    places = None if shown is None or start is None else _places(shown, start)
    if shown is not None and places is None:
        complaint = "its program does not say where it would keep its containers"
    starts_itself = not unit.program or PurePosixPath(unit.program).name == PROGRAM_NAME
    return NextStart(
        program=unit.program if start is None else start.program,
        starter="" if starts_itself else unit.program,
        as_it_runs=is_same_start(unit.command, words),
        places=places,
        complaint=complaint,
        files=() if start is None else _files(start, shown),
        directories=() if start is None else tuple(dict.fromkeys(_searched(files, PurePosixPath(start.config)))),
    )


def _shown(files: FilesView, shows: Shows, start: ContainerdStart | None) -> tuple[Configuration | None, str]:
    """What the program makes of its configuration, or why that cannot be told."""
    if start is None or start.config == str(TUNED_CONFIG):
        return None, "it is started in a way that is not known"
    # Where there is none, an empty one stands for it: the program fails to dump what it would do without.
    there = files.read(PurePosixPath(start.config)) is not None
    words = start.words(None if there or start.named else STANDARD_INPUT)
    try:
        shown = shows.configuration(words)
    except StepFailed as error:
        return None, f"asked for its configuration {start.config}, it says: {error}"
    return shown, "" if shown is not None else f"{start.program} does not show its configuration"


def _places(shown: Configuration, start: ContainerdStart) -> RuntimePlaces | None:
    """Flags win over the file, and the program does not show them."""
    flags = dict(zip(start.others[::2], start.others[1::2], strict=True))
    grpc = shown.get("grpc")
    address = grpc.get("address", "") if isinstance(grpc, Mapping) else ""
    root, state = (flags.get(f"--{name}") or shown.get(name) for name in ("root", "state"))
    if not (root and state):
        return None
    return RuntimePlaces(root=str(root), state=str(state), address=flags.get("--address") or str(address))


def _files(start: ContainerdStart, shown: Configuration | None) -> tuple[str, ...]:
    """The configuration with everything that it imports, as the program itself lists it."""
    imported = shown.get("imports") if shown is not None else None
    paths = imported if isinstance(imported, list) else []
    return tuple(dict.fromkeys([start.config, *(str(path) for path in paths if path != STANDARD_INPUT)]))


def _searched(files: FilesView, config: PurePosixPath) -> Iterator[str]:
    """Directories in which a configuration looks for further files by a pattern."""
    try:
        patterns = tomllib.loads((files.read(config) or b"").decode()).get("imports", [])
    except ValueError:  # the program has said so
        return
    for pattern in patterns if isinstance(patterns, list) else []:
        if "*" in str(pattern):
            yield str((config.parent / str(pattern)).parent)
