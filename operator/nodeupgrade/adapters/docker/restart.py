"""How dockerd would start next time, what speaks against its restart, and how it is stopped."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.adapters.calls import translated
from nodeupgrade.adapters.cri.restart import killed_with_unit
from nodeupgrade.adapters.docker.client import Document
from nodeupgrade.adapters.files.host import HostFiles
from nodeupgrade.adapters.proc.processes import NodeProgram, complaint
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.errors import StepFailed, TimedOut
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.runtime import (
    NextStart,
    RestartHazards,
    RuntimeAtWork,
    RuntimeKind,
    RuntimePlaces,
    RuntimeProcess,
)
from nodeupgrade.domain.node.systemd_units import UnitStatus
from nodeupgrade.ports.services import ServiceManager

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


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerdConfiguration:
    """What matters here of dockerd's settings."""

    root: str
    exec_root: str
    hosts: tuple[str, ...]  # where it listens
    live_restore: bool  # whether it leaves containers alone when it starts and stops


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


# What stops dockerd, once it says that this costs no container; and what else it says against a restart.

OLDEST = (18, 9)
LIVE_RESTORE_OFF = (
    "live-restore is not in effect, so stopping it would end every container; set live-restore to true in its "
    "daemon.json, reload the unit, and restart it once at a time of your choice"
)


def units(services: ServiceManager) -> tuple[str, ...]:
    """Return the socket, if dockerd has one that systemd opens, and the service."""
    has_socket = services.status(SOCKET_UNIT).load_state == "loaded"
    return (SOCKET_UNIT, UNIT) if has_socket else (UNIT,)


def stop(services: ServiceManager, info: Document | None) -> None:
    """Stop dockerd and the socket that would start it again, once it says that this costs no container.

    Args:
        services: of the node.
        info: what dockerd says of itself; ``None`` if it does not run.

    Raises:
        StepFailed: it would end containers, or does not stop.
    """
    if info is not None:
        require_live_restore(info)
    # A service that requires the socket is stopped with it. An automatic restart may be pending all the same.
    for unit in units(services):
        services.stop(unit)


def require_live_restore(info: Document) -> None:
    """Check that containers survive the end of dockerd.

    Raises:
        StepFailed: they would not.
    """
    if info.get("LiveRestoreEnabled") is not True:
        raise StepFailed(f"dockerd was not stopped: {LIVE_RESTORE_OFF}")


def objections(info: Document, version: tuple[int, ...]) -> Iterator[str]:
    """Yield what speaks against a restart of this dockerd."""
    if info.get("LiveRestoreEnabled") is not True:
        yield LIVE_RESTORE_OFF
    swarm = info.get("Swarm")
    state = swarm.get("LocalNodeState", "") if isinstance(swarm, dict) else ""
    if state not in {"", "inactive"}:
        yield f"it belongs to a swarm ({state}), whose containers do not survive a restart; leave the swarm"
    if version[:2] < OLDEST:
        yield f"it is older than {OLDEST[0]}.{OLDEST[1]:02}, and nobody has tried whether it keeps its containers"


# Known hazards of restarting dockerd: its unit, its settings, and containers that have lost their shim.


def find_hazards(seen: RuntimeAtWork) -> RestartHazards:
    """Return all known hazards of a restart."""
    return RestartHazards(
        unit=killed_with_unit(seen.unit),
        pods=tuple(_containers_have_shims(seen.inventory)),
        runtime=tuple(
            Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=f"{seen.info.name} {seen.info.version}: {objection}")
            for objection in seen.info.objections
        ),
    )


def _containers_have_shims(inventory: Inventory) -> Iterator[Finding]:
    """A container without its shim is one that dockerd cannot find again after its restart."""
    for container in inventory.running():
        if container.process is None or container.monitor is None:
            detail = (
                "it runs, but its shim does not, so that dockerd would consider it dead after a restart; "
                "delete the pod first"
            )
            yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)


# How dockerd would be configured at its next start: flags and daemon.json, which must not set the same thing.

PROGRAM_NAME = "dockerd"
DEFAULT_FILE = "/etc/docker/daemon.json"
DEFAULT_ROOT = "/var/lib/docker"
DEFAULT_EXEC_ROOT = "/var/run/docker"
DEFAULT_HOST = "unix:///var/run/docker.sock"
INHERITED = "fd://"
"""The host of a dockerd that systemd passes its socket to."""

# Flags with a value, each with its name in daemon.json, and flags without one. Only what is read here.
VALUED = {"config-file": "", "data-root": "data-root", "graph": "graph", "exec-root": "exec-root", "host": "hosts"}
SHORT = {"-g": "--graph", "-H": "--host"}
LIVE_RESTORE = "live-restore"
TRUE = frozenset({"", "true", "1", "t"})


class Unusable(ValueError):
    """dockerd would not start with its configuration, or nobody can tell."""


def config_file(words: tuple[str, ...]) -> str:
    """Return the path of daemon.json, from a command line."""
    return _flags(words).get("config-file", [DEFAULT_FILE])[-1]


def read(words: tuple[str, ...], content: bytes | None) -> DockerdConfiguration:
    """Read the settings.

    Args:
        words: the command line, program first.
        content: of daemon.json; ``None`` if there is none.

    Raises:
        Unusable: dockerd would reject them.
    """
    flags, document = _flags(words), _document(content)
    for flag, key in (*VALUED.items(), (LIVE_RESTORE, LIVE_RESTORE)):
        if flag in flags and key in document:
            raise Unusable(f"{key} is set by a flag and in daemon.json, which dockerd rejects")
    root = _last(flags, "data-root") or _last(flags, "graph") or _text(document, "data-root", "graph") or DEFAULT_ROOT
    listed = document.get("hosts", [])
    if not isinstance(listed, list):
        raise Unusable("hosts in daemon.json is not a list")
    restore = document.get(LIVE_RESTORE, False)
    if not isinstance(restore, bool):
        raise Unusable(f"{LIVE_RESTORE} in daemon.json is neither true nor false")
    return DockerdConfiguration(
        root=root,
        exec_root=_last(flags, "exec-root") or _text(document, "exec-root") or DEFAULT_EXEC_ROOT,
        hosts=tuple(flags.get("host", map(str, listed))) or (DEFAULT_HOST,),
        live_restore=restore or (_last(flags, LIVE_RESTORE) or "false").lower() in TRUE,
    )


def is_same_start(line: str, command: tuple[str, ...], running: tuple[str, ...]) -> bool:
    """Report whether a unit would start dockerd as it runs.

    Args:
        line: the unit's command line with variables not expanded; they are files' content, which is compared by time.
        command: its words, if they are known.
        running: those of the running process.
    """
    if command:
        return command == running
    rest = iter(running)
    return all(word in rest for word in literal(line))


def literal(line: str) -> tuple[str, ...]:
    """Return the words of a command line that contain no variables."""
    return tuple(word for word in line.split() if "$" not in word)


def _flags(words: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    rest = list(words[1:])
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        name = SHORT.get(name, name).removeprefix("--")
        if not equals and name in VALUED and rest:
            value = rest.pop(0)
        elif not equals and name == LIVE_RESTORE:
            value = "true"
        found.setdefault(name, []).append(value)
    return found


def _document(content: bytes | None) -> Mapping[str, object]:
    try:
        document = json.loads(content) if content else {}
    except ValueError as error:
        raise Unusable(f"daemon.json is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Unusable("daemon.json is not an object")
    return document


def _last(flags: Mapping[str, list[str]], name: str) -> str:
    return flags.get(name, [""])[-1]


def _text(document: Mapping[str, object], *names: str) -> str:
    return next((str(document[name]) for name in names if document.get(name)), "")


def at(host: str) -> PurePosixPath | None:
    """Return the path of the socket of a host; ``None`` if it is none of the file system."""
    path = host.removeprefix("unix://")
    return PurePosixPath(path) if path != host and path.startswith("/") else None
