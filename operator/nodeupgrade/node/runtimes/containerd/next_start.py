"""Finds out how containerd would start next time, from its program's own reading of its configuration."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TypeAlias

from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.processes.programs import NodeProgram
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.containerd import command_line
from nodeupgrade.node.runtimes.containerd.command_line import ContainerdStart
from nodeupgrade.node.runtimes.containerd.imports import Imports, find_imports
from nodeupgrade.node.runtimes.description import NextStart, RuntimePlaces, RuntimeProcess
from nodeupgrade.text import parse_toml

UNIT = "containerd.service"
Configuration: TypeAlias = Mapping[str, object]
"""The complete configuration, as ``containerd config dump`` prints it."""

_SERVED = (("grpc",), ("plugins", "io.containerd.server.v1.grpc"))
"""Where the address is: the latter since version 4 of the configuration (containerd 2.3)."""
_CRI = (("plugins", "io.containerd.cri.v1.runtime"), ("plugins", "io.containerd.grpc.v1.cri"))
"""Where the CRI plugin is configured: the latter up to version 2 of the configuration."""


class ContainerdProgram(NodeProgram):
    """Runs containerd's program; needs no running daemon."""

    VERSION = re.compile(r"^\S+\s+\S+\s+v?(\S+)", re.ASCII)
    """The third word."""

    def configuration(self, command: tuple[str, ...], text: bytes = b"") -> Configuration | None:
        """Return the output of ``containerd … config dump``; ``None`` if it is not TOML.

        Args:
            command: command line that would start containerd.
            text: standard input, for ``--config /dev/stdin``.

        Raises:
            TimedOut: the program does not end in time.
            StepFailed: it ends with an error, or cannot be run.
        """
        printed = self.output((*command, "config", "dump"), text=text)
        try:
            return parse_toml(printed)
        except ValueError:
            return None


def find_next_start(
    files: FilesView, program: ContainerdProgram, unit: UnitStatus, running: RuntimeProcess | None
) -> NextStart:
    """Ask the program on disk, with the unit's command line or, if that is unknown, the running process's."""
    command = () if running is None else running.words
    start = command_line.parse_command_line(unit.command) or command_line.parse_command_line(command)
    dump, places, complaint, unknown = None, None, "", ""
    imports = Imports(files=())
    try:
        if start is None or start.config == str(command_line.TUNED_CONFIG):
            complaint = "it is started by an unknown command line"
        else:
            dump = dump_configuration(files, program, start)
            imports = _imports(files, start, dump)
            places = _places(dump, start)
    except TimedOut as error:
        unknown = str(error)
    except StepFailed as error:
        complaint = str(error)
    return NextStart(
        program=unit.program if start is None else start.program,
        starter="" if PurePosixPath(unit.program).name == command_line.PROGRAM_NAME else unit.program,
        as_it_runs=command_line.is_same_start(unit.command, command),
        places=places,
        complaint=complaint,
        unknown=unknown,
        cgroup_driver=None if dump is None else _cgroup_driver(dump),
        files=() if start is None else (start.config, *imports.files, *imports.patterns),
        directories=imports.directories,
    )


def dump_configuration(files: FilesView, program: ContainerdProgram, start: ContainerdStart) -> Configuration:
    """Have a containerd program print the configuration that it would start with."""
    # ``config dump`` fails without a configuration file, so an empty one replaces a missing one.
    has_file = files.read(PurePosixPath(start.config)) is not None
    command = start.words(None if has_file or start.named else command_line.STANDARD_INPUT)
    try:
        dump = program.configuration(command)
    except TimedOut:
        raise
    except StepFailed as error:
        if command_line.NO_SUCH_COMMAND in str(error):
            first = "which is the first that shows its configuration (config dump)"
            raise StepFailed(f"{start.program} is older than containerd 1.3, {first}") from error
        raise StepFailed(f"asked for its configuration {start.config}, it says: {error}") from error
    if dump is None:
        raise StepFailed(f"{start.program} does not show its configuration")
    return dump


def _places(dump: Configuration, start: ContainerdStart) -> RuntimePlaces:
    """Return directories and socket. Flags override the configuration, and the dump does not include them."""
    flags = dict(zip(start.others[::2], start.others[1::2], strict=True))
    address = next(filter(None, (_map(dump, *path).get("address") for path in _SERVED)), "")
    root, state = (flags.get(f"--{name}") or dump.get(name) for name in ("root", "state"))
    if not (root and state):
        raise StepFailed("its program does not say where it would keep its containers")
    return RuntimePlaces(root=str(root), state=str(state), address=flags.get("--address") or str(address))


def _cgroup_driver(dump: Configuration) -> str | None:
    """Return the cgroup driver of the runtime handler that pods have by default; ``None`` if it is not shown."""
    for path in _CRI:
        handlers = _map(dump, *path, "containerd")
        options = _map(handlers, "runtimes", str(handlers.get("default_runtime_name")), "options")
        if isinstance(by_systemd := options.get("SystemdCgroup"), bool):
            return "systemd" if by_systemd else "cgroupfs"
    return None


def _map(dump: Configuration, *path: str) -> Configuration:
    """Return the table at a path; empty if there is none."""
    for key in path:
        inner = dump.get(key)
        dump = inner if isinstance(inner, Mapping) else {}
    return dump


def _imports(files: FilesView, start: ContainerdStart, dump: Configuration | None) -> Imports:
    shown = None if dump is None else dump.get("imports")
    listed = [path for path in shown if path != command_line.STANDARD_INPUT] if isinstance(shown, list) else None
    return find_imports(files, start.config, listed)
