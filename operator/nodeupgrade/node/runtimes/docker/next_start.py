"""How dockerd would start next time, what speaks against its restart, and how it is stopped."""

import re
from pathlib import PurePosixPath

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.node.host.files.mounted import HostFiles
from nodeupgrade.node.host.processes.programs import NodeProgram, complaint
from nodeupgrade.node.host.retries import translated
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.description import NextStart, RuntimeKind, RuntimePlaces, RuntimeProcess
from nodeupgrade.node.runtimes.docker.configuration import (
    INHERITED,
    PROGRAM_NAME,
    DockerdConfiguration,
    Unusable,
    at,
    config_file,
    is_same_start,
    literal,
    read,
)

UNIT = "docker.service"
SOCKET_UNIT = "docker.socket"
"""Starts the service as soon as anybody connects, so that it has to be stopped, too."""

DOCKER = RuntimeKind(
    name=SupportedRuntime.DOCKER,
    unit=UNIT,
    why_no_shield="its kubelet talks to Docker in Docker's own protocol, which the shield does not understand",
    stops_for_rewriting=True,
)


class DockerdProgram(NodeProgram):
    """Runs dockerd's program; starts no daemon."""

    VERSION = re.compile(r"version v?([^\s,]+)")
    VALIDATE = "--validate"
    """Known to dockerd since 23.0."""

    def complaint(self, command: tuple[str, ...]) -> str:
        """Return what the program says against its configuration; empty if nothing, or if it cannot be asked.

        Raises:
            TimedOut: the program does not end in time.
            StepFailed: it cannot be run.
        """
        with translated(f"cannot run {command[0]}"):
            # A program that did not know the option would not start either, but that is not worth a try.
            if self.VALIDATE.encode() not in self.run((command[0], "--help")).stdout:
                return ""
            done = self.run((*command, self.VALIDATE))
        return "" if done.returncode == 0 else complaint(done)


def find_next_start(
    files: HostFiles, program: DockerdProgram, unit: UnitStatus, running: RuntimeProcess | None, endpoint: PurePosixPath
) -> NextStart:
    """Read dockerd's configuration as its program on disk would.

    The command line is the unit's or, if the unit expands variables, the running process's; without one, what the unit
    says besides variables.
    """
    words = unit.command or (literal(unit.start_line) if running is None else running.words)
    starts_itself = PurePosixPath(unit.program).name == PROGRAM_NAME
    places, unknown, complaint = None, "", "it is started in a way that is not known"
    path = config_file(words)
    if words and starts_itself:
        try:
            found = configured(files, words)
            complaint = _complaint(found, program, words)
            places = None if complaint else places_of(files, found, endpoint)
        except TimedOut as error:
            complaint, unknown = "", str(error)
        except (Unusable, StepFailed) as error:
            complaint = str(error)
    return NextStart(
        program=unit.program,
        starter="" if starts_itself else unit.program,
        as_it_runs=running is not None and is_same_start(unit.start_line, unit.command, running.words),
        places=places,
        complaint=complaint,
        unknown=unknown,
        files=(path,),
    )


def configured(files: HostFiles, words: tuple[str, ...]) -> DockerdConfiguration:
    """Read dockerd's settings.

    Raises:
        Unusable: dockerd would reject them.
        StepFailed: daemon.json cannot be read.
    """
    return read(words, files.read(PurePosixPath(config_file(words))))


def places_of(files: HostFiles, found: DockerdConfiguration, endpoint: PurePosixPath) -> RuntimePlaces:
    """Return directories and socket, symbolic links followed, as dockerd does."""
    sockets = [path for host in found.hosts if (path := at(host)) is not None]
    here = [path for path in sockets if path == endpoint or files.socket(path) == endpoint]
    is_found = bool(here) or INHERITED in found.hosts
    return RuntimePlaces(
        root=str(real(files, found.root)),
        state=str(real(files, found.exec_root)),
        address=str(endpoint) if is_found else ", ".join(found.hosts),
    )


def real(files: HostFiles, path: str) -> PurePosixPath:
    """Return a path on the node without symbolic links."""
    return files.on_node(files.seen(PurePosixPath(path)))


def _complaint(found: DockerdConfiguration, program: DockerdProgram, words: tuple[str, ...]) -> str:
    if not found.live_restore:
        return (
            "live-restore is not switched on in its daemon.json or by a flag, so that it would end every container "
            "when it starts"
        )
    return program.complaint(words)
