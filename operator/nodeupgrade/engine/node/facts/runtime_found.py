"""Finds out how the runtime runs and how its unit would start it; touches nothing."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.checks.runtime_drift import RuntimeAsFound
from nodeupgrade.domain.node.host import RuntimeInfo, RuntimePlaces, UnitStatus
from nodeupgrade.domain.node.shim_limit import CONFIG, STANDARD_INPUT, Start, read_start
from nodeupgrade.domain.node.unit_start import UnitStart, unit_files
from nodeupgrade.engine.node.facts import unit_start
from nodeupgrade.engine.node.node import NodeView
from nodeupgrade.ports.files import FilesView
from nodeupgrade.ports.runtime import Configuration

SERVICE = re.compile(r"[^/]+\.service")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """What a start reads beside the unit's files.

    Attributes:
        files: those that are there, or whose appearance would count.
        directories: those in which a file may come or go.
    """

    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


def find(node: NodeView, unit: UnitStatus, info: RuntimeInfo) -> tuple[RuntimeAsFound, UnitStart]:
    """Look at the running runtime, and let the program on disk say what it would make of its configuration."""
    start = read_start(unit.command) or (read_start(info.process.words) if info.process else None)
    shown, complaint = _shown(node, start)
    places = None if shown is None or start is None else _places(shown, start)
    if shown is not None and places is None:
        complaint = "its program does not say where it would keep its containers"
    reads = _reads(node.files, start, shown)
    program = PurePosixPath(_program(unit, start))
    found = RuntimeAsFound(
        unit=unit,
        process=info.process,
        owner="" if info.process is None else _owner(node.files, info.process.pid),
        places=info.places,
        would_be=places,
        complaint=complaint,
        changed=_changed(node, unit, reads),
        program=node.files.digest(program) if program.is_absolute() else None,
    )
    how = unit_start.read_start(node.files, unit, reads.files, reads.directories)
    return found, replace(how, program=str(program), digest=found.program)


def _program(unit: UnitStatus, start: Start | None) -> str:
    """The runtime's own program; a unit may start it by another one."""
    return unit.program if start is None else start.program


def _shown(node: NodeView, start: Start | None) -> tuple[Configuration | None, str]:
    """What the program makes of its configuration, or why that cannot be told."""
    if start is None or start.config == str(CONFIG):
        return None, "it is started in a way that is not known"
    # Where there is none, an empty one stands for it: the program fails to dump what it would do without.
    there = node.files.read(PurePosixPath(start.config)) is not None
    words = start.words(None if there or start.named else STANDARD_INPUT)
    try:
        shown = node.runtime.configuration(words)
    except StepFailed as error:
        return None, f"asked for its configuration {start.config}, it says: {error}"
    return shown, "" if shown is not None else f"{start.program} does not show its configuration"


def _places(shown: Configuration, start: Start) -> RuntimePlaces | None:
    """Flags win over the file, and the program does not show them."""
    flags = dict(zip(start.others[::2], start.others[1::2], strict=True))
    grpc = shown.get("grpc")
    address = grpc.get("address", "") if isinstance(grpc, Mapping) else ""
    root, state = (flags.get(f"--{name}") or shown.get(name) for name in ("root", "state"))
    if not (root and state):
        return None
    return RuntimePlaces(root=str(root), state=str(state), address=flags.get("--address") or str(address))


def _reads(files: FilesView, start: Start | None, shown: Configuration | None) -> _Reads:
    """The configuration with everything that it imports, as the program itself lists it."""
    if start is None:
        return _Reads()
    imported = shown.get("imports") if shown is not None else None
    paths = imported if isinstance(imported, list) else []
    own = files.read(PurePosixPath(start.config))
    return _Reads(
        files=tuple(dict.fromkeys([start.config, *(str(path) for path in paths if path != STANDARD_INPUT)])),
        directories=tuple(dict.fromkeys(_searched(own, PurePosixPath(start.config).parent))),
    )


def _searched(own: bytes | None, base: PurePosixPath) -> Iterator[str]:
    """Directories in which a configuration looks for further files by a pattern."""
    try:
        patterns = tomllib.loads((own or b"").decode()).get("imports", [])
    except ValueError:  # the program has said so
        return
    for pattern in patterns if isinstance(patterns, list) else []:
        if "*" in str(pattern):
            yield str((base / str(pattern)).parent)


def _changed(node: NodeView, unit: UnitStatus, reads: _Reads) -> tuple[str, ...]:
    """What was changed after the runtime was started, of everything that a start reads.

    A drop-in or a configuration that was taken away is told by its directory; those in /run hold our own as well.
    """
    if unit.started is None:
        return ()
    started = node.clock.now().timestamp() - (node.clock.monotonic() - unit.started)
    paths = [*reads.files, *unit_files(unit), *reads.directories, *_drop_in_directories(unit), *_scripts(unit)]
    changed = node.files.changed
    paths += [str(path.parent) for path in map(PurePosixPath, reads.files) if changed(path) is None]
    return tuple(path for path in dict.fromkeys(paths) if (changed(PurePosixPath(path)) or 0.0) > started)


def _drop_in_directories(unit: UnitStatus) -> Iterable[str]:
    parents = (str(PurePosixPath(path).parent) for path in unit.drop_ins)
    return (path for path in parents if not path.startswith("/run/"))


def _scripts(unit: UnitStatus) -> Iterator[str]:
    """What starts the runtime's program in its stead; whether that itself was exchanged, its digest tells."""
    if unit.program and PurePosixPath(unit.program).name != "containerd":
        yield unit.program


def _owner(files: FilesView, pid: int) -> str:
    """The service that a process belongs to, by its control group."""
    data = files.read(PurePosixPath(f"/proc/{pid}/cgroup")) or b""
    lines = data.decode(errors="replace").splitlines()
    told = [line for line in lines if line.startswith(("0::", "1:name=systemd:")) or ":name=systemd:" in line]
    found = [name for line in told for name in SERVICE.findall(line)]
    return found[0] if found else ""
