"""Finds out how dockerd would start next time. Starts nothing."""

from pathlib import PurePosixPath

from nodeupgrade.adapters.docker.program import DockerdProgram
from nodeupgrade.adapters.docker.restart import configuration
from nodeupgrade.adapters.docker.restart.configuration import INHERITED, DockerdConfiguration, Unusable
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.runtime import NextStart
from nodeupgrade.domain.node.runtime_info import RuntimePlaces, RuntimeProcess
from nodeupgrade.domain.node.units.status import UnitStatus


def find(
    files: HostFiles, program: DockerdProgram, unit: UnitStatus, running: RuntimeProcess | None, endpoint: PurePosixPath
) -> NextStart:
    """Read dockerd's configuration as its program on disk would.

    The command line is the unit's or, if the unit expands variables, the running process's; without one, what the unit
    says besides variables.
    """
    words = unit.command or (configuration.literal(unit.start_line) if running is None else running.words)
    starts_itself = PurePosixPath(unit.program).name == configuration.PROGRAM_NAME
    places, complaint = None, "it is started in a way that is not known"
    path = configuration.config_file(words)
    if words and starts_itself:
        try:
            found = configured(files, words)
            complaint = _complaint(found, program, words)
            places = None if complaint else places_of(files, found, endpoint)
        except (Unusable, StepFailed) as error:
            complaint = str(error)
    return NextStart(
        program=unit.program,
        starter="" if starts_itself else unit.program,
        as_it_runs=running is not None and configuration.is_same_start(unit.start_line, unit.command, running.words),
        places=places,
        complaint=complaint,
        files=(path,),
    )


def configured(files: HostFiles, words: tuple[str, ...]) -> DockerdConfiguration:
    """Read dockerd's settings.

    Raises:
        Unusable: dockerd would reject them.
        StepFailed: daemon.json cannot be read.
    """
    return configuration.read(words, files.read(PurePosixPath(configuration.config_file(words))))


def places_of(files: HostFiles, found: DockerdConfiguration, endpoint: PurePosixPath) -> RuntimePlaces:
    """Return directories and socket, symbolic links followed, as dockerd does."""
    sockets = [path for host in found.hosts if (path := configuration.at(host)) is not None]
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
