"""Finds out how CRI-O would start next time, from its program's own reading of its configuration."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.kubelet.layout import above_logs
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.processes.programs import NodeProgram
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.crio.configuration import LOGS, CrioConfiguration, find_harm, parse_printed
from nodeupgrade.node.runtimes.description import NextStart, RuntimeKind, RuntimePlaces, RuntimeProcess

UNIT = "crio.service"

PROVEN = ("1.33", "1.34", "1.36")
"""Minor versions with which nodes were upgraded and rolled back."""

LOCKS = tuple(
    PurePosixPath(name)
    for name in (
        *("containers.lock", "../storage.lock", "../userns.lock"),
        *(f"../{driver}-{kind}/{kind}.lock" for driver in ("overlay", "vfs") for kind in ("layers", "images")),
    )
)
"""The locks of its storage, beside and in the directory of containers."""

CRIO = RuntimeKind(
    name=SupportedRuntime.CRIO,
    unit=UNIT,
    exchangeable_socket=True,
    needs_free_path=True,
    remembers_ends=True,
    locks=LOCKS,
    makes=(LOGS,),
    proven=PROVEN,
)

PROGRAM_NAME = "crio"
CONFIG, DROP_INS = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"
STORAGE = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")
"""The files of the defaults for CRI-O's storage."""
HOOKS = "/usr/share/containers/oci"
"""Contains the directory of hooks, which a starting CRI-O makes if it is missing."""
CONFIG_FLAGS = {"--config": "CONTAINER_CONFIG", "-c": "CONTAINER_CONFIG"}
LOG_FLAGS = {"--log": "CONTAINER_LOG"}
DROP_IN_FLAGS = {"--config-dir": "CONTAINER_CONFIG_DIR", "-d": "CONTAINER_CONFIG_DIR"}
PASSED_ON = re.compile(r"CONTAINER_\w+", re.ASCII)
"""Environment variables that set flags."""


class CrioProgram(NodeProgram):
    """Runs CRI-O's program; needs no running daemon."""

    VERSION = re.compile(r"version[: ]+v?(\d+\.\d+\.\d+\S*)", re.ASCII | re.IGNORECASE)

    def configuration(self, command: tuple[str, ...], environment: Mapping[str, str]) -> str:
        """Return the output of ``crio … config``.

        Args:
            command: command line that would start CRI-O.
            environment: of the running CRI-O; only what sets flags is passed on.

        Raises:
            TimedOut: the program does not end in time.
            StepFailed: it ends with an error, or cannot be run.
        """
        given = {name: value for name, value in environment.items() if PASSED_ON.fullmatch(name)}
        return self.output((*command, "config"), environment=given).decode(errors="replace")


def find_next_start(
    files: FilesView,
    program: CrioProgram,
    unit: UnitStatus,
    process: RuntimeProcess | None,
    *,
    runs: CrioConfiguration,
    environment: Mapping[str, str],
) -> NextStart:
    """Ask the program on disk, with the unit's command line or, if systemd expands it, the running process's.

    Args:
        unit: how systemd would start it.
        process: the process that serves now.
        runs: the configuration that this process reports.
        environment: of this process.
    """
    running = () if process is None else process.words
    words = unit.command or running
    found, complaint, unknown = None, "", ""
    try:
        following = _configuration(program, words, environment)
        shared = _replaceable(("log_dir", following.logs), ("--log", _given(words, LOG_FLAGS, environment)))
        complaint = "; ".join((*find_harm(runs, following), *shared))
        found = None if complaint else places(following)
    except TimedOut as error:
        unknown = str(error)
    except StepFailed as error:
        complaint = str(error)
    config = _given(words, CONFIG_FLAGS, environment) or CONFIG
    drop_ins = PurePosixPath(_given(words, DROP_IN_FLAGS, environment) or DROP_INS)
    inside = files.walk(drop_ins)  # as CRI-O does, which also reads what a link leads to
    below = (place for path in inside for place in reversed(path.parents) if place.is_relative_to(drop_ins))
    return NextStart(
        program=words[0] if words else unit.program,
        starter="" if PurePosixPath(unit.program).name == PROGRAM_NAME else unit.program,
        as_it_runs=not unit.command or unit.command == running,
        places=found,
        complaint=complaint,
        unknown=unknown,
        files=(config, *map(str, inside), *STORAGE),
        directories=tuple(dict.fromkeys(map(str, (drop_ins, *below)))),
        makes=(HOOKS,),
    )


def places(configuration: CrioConfiguration) -> RuntimePlaces:
    """Return where CRI-O keeps its containers; the storage's driver is part of that."""
    return RuntimePlaces(
        root=str(PurePosixPath(configuration.root) / f"{configuration.driver}-containers"),
        state=configuration.runroot,
        address=configuration.listen,
    )


def _replaceable(*settings: tuple[str, str | None]) -> Iterator[str]:
    """Yield the places without which CRI-O exits, that pods which collect logs may take, and no run looks after."""
    for name, path in settings:
        if path and (place := PurePosixPath(path)) != LOGS and above_logs(place) == above_logs(LOGS):
            yield f"{name} is {path}, without which it would not start, and which pods that collect logs may replace"


def _configuration(program: CrioProgram, words: tuple[str, ...], environment: Mapping[str, str]) -> CrioConfiguration:
    """Return the configuration that the program would have.

    Raises:
        TimedOut, StepFailed: that is unknown.
    """
    if not words or PurePosixPath(words[0]).name != PROGRAM_NAME:
        raise StepFailed("it is started by an unknown command line")
    try:
        return parse_printed(program.configuration(words, environment))
    except TimedOut:
        raise
    except StepFailed as error:
        raise StepFailed(f"asked for its configuration, it says: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        why = f"{type(error).__name__} {error}"
        raise StepFailed(f"{words[0]} does not show its configuration ({why})") from error


def _given(words: tuple[str, ...], names: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the value of a flag, which wins over its environment variable."""
    found = None
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else following
    return found or environment.get(next(iter(names.values())))
