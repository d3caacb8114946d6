"""Finds out how CRI-O would start next time, from its program's own reading of its configuration."""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.adapters.crio.configuration import CrioConfiguration, harm, printed
from nodeupgrade.adapters.crio.program import PrintsConfiguration
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.runtime import NextStart
from nodeupgrade.domain.node.runtime_info import RuntimePlaces, RuntimeProcess
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.ports.node.files import FilesView

PROGRAM_NAME = "crio"
CONFIG, DROP_INS = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"
STORAGE = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")
"""Where CRI-O has its defaults from, for everything about its storage."""
CONFIG_FLAGS = {"--config": "CONTAINER_CONFIG", "-c": "CONTAINER_CONFIG"}
DROP_IN_FLAGS = {"--config-dir": "CONTAINER_CONFIG_DIR", "-d": "CONTAINER_CONFIG_DIR"}


def find(
    files: FilesView,
    shows: PrintsConfiguration,
    unit: UnitStatus,
    process: RuntimeProcess | None,
    *,
    runs: CrioConfiguration | None,
    environment: Mapping[str, str],
) -> NextStart:
    """Ask the program on disk, with the unit's command line or, if systemd expands it, the running process's.

    Args:
        files: the node's.
        shows: runs the program.
        unit: how systemd would start it.
        process: the process that serves now.
        runs: the configuration that it says it has; ``None`` if nobody can tell.
        environment: of that process.
    """
    running = () if process is None else process.words
    words = unit.command or running
    following, complaint = _configuration(shows, words, environment)
    if following is not None:
        complaint = _complaint(runs, following)
    config = _given(words, CONFIG_FLAGS, environment) or CONFIG
    drop_ins = _given(words, DROP_IN_FLAGS, environment) or DROP_INS
    starts_itself = not unit.program or PurePosixPath(unit.program).name == PROGRAM_NAME
    return NextStart(
        program=words[0] if words else unit.program,
        starter="" if starts_itself else unit.program,
        as_it_runs=not unit.command or unit.command == running,
        places=None if following is None or complaint else places(following),
        complaint=complaint,
        files=(config, *(str(path) for path in files.list(PurePosixPath(drop_ins))), *STORAGE),
        directories=(drop_ins,),
    )


def places(configuration: CrioConfiguration) -> RuntimePlaces:
    """Return where CRI-O keeps its containers; the storage's driver is part of that."""
    return RuntimePlaces(
        root=str(PurePosixPath(configuration.root) / f"{configuration.driver}-containers"),
        state=configuration.runroot,
        address=configuration.listen,
    )


def _configuration(
    shows: PrintsConfiguration, words: tuple[str, ...], environment: Mapping[str, str]
) -> tuple[CrioConfiguration | None, str]:
    """Return what the program would be configured to do, or why that is unknown."""
    if not words or PurePosixPath(words[0]).name != PROGRAM_NAME:
        return None, "it is started in a way that is not known"
    try:
        return printed(shows.configuration(words, environment)), ""
    except StepFailed as error:
        return None, f"asked for its configuration, it says: {error}"
    except (ValueError, KeyError, TypeError) as error:
        return None, f"{words[0]} does not show its configuration ({type(error).__name__} {error})"


def _complaint(runs: CrioConfiguration | None, following: CrioConfiguration) -> str:
    if runs is None:
        return "the running one does not show its configuration"
    return "; ".join(harm(runs, following))


def _given(words: tuple[str, ...], names: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the value of a flag, which wins over its environment variable."""
    found = None
    for word, following in zip(words, (*words[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else following
    return found or environment.get(next(iter(names.values())))
