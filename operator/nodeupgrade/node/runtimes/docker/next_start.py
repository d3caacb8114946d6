"""Finds out how dockerd would start next time."""

import re
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.programs import NodeProgram, failure_message
from nodeupgrade.node.host.retries import translate_errors
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.description import NextStart, RuntimePlaces, RuntimeProcess
from nodeupgrade.node.runtimes.docker import configuration

UNIT = "docker.service"
SOCKET_UNIT = "docker.socket"
"""Starts the service at the first connection, so it has to be stopped, too."""


class DockerdProgram(NodeProgram):
    """Runs dockerd's program; starts no daemon."""

    VERSION = re.compile(r"version v?([^\s,]+)", re.ASCII)
    VALIDATE = "--validate"
    """Known to dockerd since 23.0."""

    def complaint(self, command: tuple[str, ...]) -> str:
        """Return the program's objection to its configuration; empty if it has none, or cannot check it.

        Raises:
            TimedOut: the program does not end in time.
            StepFailed: it cannot be run.
        """
        with translate_errors(f"cannot run {command[0]}"):
            # Older programs do not know the option.
            if self.VALIDATE.encode() not in self.run((command[0], "--help")).stdout:
                return ""
            done = self.run((*command, self.VALIDATE))
        return "" if done.returncode == 0 else failure_message(done)


def find_next_start(
    files: HostFiles, program: DockerdProgram, unit: UnitStatus, running: RuntimeProcess | None, endpoint: PurePosixPath
) -> NextStart:
    """Read dockerd's configuration as its program on disk would.

    The command line is the unit's or, if that has variables, the running process's or else the unit's without them.
    """
    words = unit.command or (configuration.literal_words(unit.start_line) if running is None else running.words)
    starts_itself = PurePosixPath(unit.program).name == configuration.PROGRAM_NAME
    places, unknown, complaint = None, "", "it is started by an unknown command line"
    path = configuration.config_file(words)
    if words and starts_itself:
        try:
            found = read_settings(files, words)
            complaint = _complaint(found, program, words)
            places = None if complaint else places_of(files, found, endpoint)
        except TimedOut as error:
            complaint, unknown = "", str(error)
        except (configuration.UnusableConfiguration, StepFailed) as error:
            complaint = str(error)
    return NextStart(
        program=unit.program,
        starter="" if starts_itself else unit.program,
        as_it_runs=running is not None and configuration.is_same_start(unit.start_line, unit.command, running.words),
        places=places,
        complaint=complaint,
        unknown=unknown,
        files=(path,),
    )


def read_settings(files: HostFiles, words: tuple[str, ...]) -> configuration.DockerdConfiguration:
    """Read dockerd's settings.

    Raises:
        Unusable: dockerd would reject them.
        StepFailed: daemon.json cannot be read.
    """
    return configuration.read_configuration(words, files.read(PurePosixPath(configuration.config_file(words))))


def places_of(files: HostFiles, found: configuration.DockerdConfiguration, endpoint: PurePosixPath) -> RuntimePlaces:
    """Return directories and socket, symbolic links followed, as dockerd does."""
    sockets = [path for host in found.hosts if (path := configuration.socket_path(host)) is not None]
    here = [path for path in sockets if path == endpoint or files.socket(path) == endpoint]
    is_found = bool(here) or configuration.INHERITED in found.hosts
    return RuntimePlaces(
        root=str(real_path(files, found.root)),
        state=str(real_path(files, found.exec_root)),
        address=str(endpoint) if is_found else ", ".join(found.hosts),
    )


def real_path(files: HostFiles, path: str) -> PurePosixPath:
    """Return a path on the node without symbolic links."""
    return files.on_node(files.seen(PurePosixPath(path)))


def _complaint(found: configuration.DockerdConfiguration, program: DockerdProgram, words: tuple[str, ...]) -> str:
    if not found.live_restore:
        return (
            "live-restore is not switched on in its daemon.json or by a flag, so that it would end every container "
            "when it starts"
        )
    return program.complaint(words)
