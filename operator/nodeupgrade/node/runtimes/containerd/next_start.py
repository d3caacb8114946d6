"""Finds out how containerd would start next time, from its program's own reading of its configuration."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TypeAlias

from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.processes.programs import NodeProgram
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.containerd import command_line
from nodeupgrade.node.runtimes.containerd.command_line import ContainerdStart
from nodeupgrade.node.runtimes.description import NextStart, RuntimePlaces, RuntimeProcess
from nodeupgrade.text import parse_toml

UNIT = "containerd.service"
Configuration: TypeAlias = Mapping[str, object]
"""The complete configuration, as ``containerd config dump`` prints it."""


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
    try:
        if start is None or start.config == str(command_line.TUNED_CONFIG):
            complaint = "it is started by an unknown command line"
        else:
            dump = dump_configuration(files, program, start)
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
        files=() if start is None else _files(start, dump),
        directories=() if start is None else tuple(dict.fromkeys(_searched(files, PurePosixPath(start.config)))),
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
    grpc = dump.get("grpc")
    address = grpc.get("address", "") if isinstance(grpc, Mapping) else ""
    root, state = (flags.get(f"--{name}") or dump.get(name) for name in ("root", "state"))
    if not (root and state):
        raise StepFailed("its program does not say where it would keep its containers")
    return RuntimePlaces(root=str(root), state=str(state), address=flags.get("--address") or str(address))


def _files(start: ContainerdStart, dump: Configuration | None) -> tuple[str, ...]:
    """Return the configuration file and all files that it imports, as listed by the program itself."""
    imported = dump.get("imports") if dump is not None else None
    paths = imported if isinstance(imported, list) else []
    return tuple(dict.fromkeys([start.config, *(str(path) for path in paths if path != command_line.STANDARD_INPUT)]))


def _searched(files: FilesView, config: PurePosixPath) -> Iterator[str]:
    """Yield the directories that the configuration searches for imports by a pattern."""
    try:
        patterns = parse_toml(files.read(config) or b"").get("imports", [])
    except ValueError:  # not TOML, which the program reports itself
        return
    for pattern in patterns if isinstance(patterns, list) else []:
        if "*" in str(pattern):
            yield str((config.parent / str(pattern)).parent)
