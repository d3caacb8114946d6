"""Finds out how CRI-O would start next time, from its program's own reading of its configuration."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from nodeupgrade.adapters.proc.processes import NodeProgram
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.errors import StepFailed, TimedOut
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.inventory import ContainerInstance
from nodeupgrade.domain.node.runtime import (
    NextStart,
    RestartHazards,
    RuntimeAtWork,
    RuntimeKind,
    RuntimePlaces,
    RuntimeProcess,
)
from nodeupgrade.domain.node.systemd_units import UnitStatus
from nodeupgrade.ports.files import FilesView

UNIT = "crio.service"

PROVEN = ("1.33", "1.34", "1.36")
"""Minor versions of which nodes were upgraded there and back."""

CRIO = RuntimeKind(
    name=SupportedRuntime.CRIO,
    unit=UNIT,
    exchangeable_socket=True,
    needs_free_path=True,
    remembers_ends=True,
    proven=PROVEN,
)

PROGRAM_NAME = "crio"
CONFIG, DROP_INS = "/etc/crio/crio.conf", "/etc/crio/crio.conf.d"
STORAGE = ("/etc/containers/storage.conf", "/usr/share/containers/storage.conf")
"""Where CRI-O has its defaults from, for everything about its storage."""
HOOKS = "/usr/share/containers/oci"
"""Holds the directory of hooks, which CRI-O makes when it starts where it is missing."""
CONFIG_FLAGS = {"--config": "CONTAINER_CONFIG", "-c": "CONTAINER_CONFIG"}
DROP_IN_FLAGS = {"--config-dir": "CONTAINER_CONFIG_DIR", "-d": "CONTAINER_CONFIG_DIR"}
PASSED_ON = re.compile(r"CONTAINER_\w+")
"""Environment variables that set flags."""


class CrioProgram(NodeProgram):
    """Runs CRI-O's program; needs no running daemon."""

    VERSION = re.compile(r"version[: ]+v?(\d+\.\d+\.\d+\S*)", re.IGNORECASE)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """How CRI-O asks about the containers of one runtime handler."""

    path: str = ""  # of the program; empty where it is looked up
    # directory in which the program keeps what it knows of containers, empty for CRI-O's default; None if that is
    # unknown
    root: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CrioConfiguration:
    """Settings of CRI-O."""

    root: str  # directory of the storage
    runroot: str  # directory of the storage's volatile part
    driver: str  # of the storage
    listen: str  # path of its socket
    default_runtime: str  # name of the handler of containers that name none
    handlers: Mapping[str, Handler]  # by name


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
        files: the node's.
        program: runs the program.
        unit: how systemd would start it.
        process: the process that serves now.
        runs: the configuration that it says it has.
        environment: of that process.
    """
    running = () if process is None else process.words
    words = unit.command or running
    found, complaint, unknown = None, "", ""
    try:
        following = _configuration(program, words, environment)
        complaint = "; ".join(harm(runs, following))
        found = None if complaint else places(following)
    except TimedOut as error:
        unknown = str(error)
    except StepFailed as error:
        complaint = str(error)
    config = _given(words, CONFIG_FLAGS, environment) or CONFIG
    drop_ins = _given(words, DROP_IN_FLAGS, environment) or DROP_INS
    return NextStart(
        program=words[0] if words else unit.program,
        starter="" if PurePosixPath(unit.program).name == PROGRAM_NAME else unit.program,
        as_it_runs=not unit.command or unit.command == running,
        places=found,
        complaint=complaint,
        unknown=unknown,
        files=(config, *(str(path) for path in files.list(PurePosixPath(drop_ins))), *STORAGE),
        directories=(drop_ins,),
        makes=(HOOKS,),
    )


def places(configuration: CrioConfiguration) -> RuntimePlaces:
    """Return where CRI-O keeps its containers; the storage's driver is part of that."""
    return RuntimePlaces(
        root=str(PurePosixPath(configuration.root) / f"{configuration.driver}-containers"),
        state=configuration.runroot,
        address=configuration.listen,
    )


def _configuration(program: CrioProgram, words: tuple[str, ...], environment: Mapping[str, str]) -> CrioConfiguration:
    """Return what the program would be configured to do.

    Raises:
        TimedOut, StepFailed: that is unknown.
    """
    if not words or PurePosixPath(words[0]).name != PROGRAM_NAME:
        raise StepFailed("it is started in a way that is not known")
    try:
        return printed(program.configuration(words, environment))
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


# Known hazards of restarting CRI-O: conmons that systemd would kill, and containers that it would not find again.

RECORDS = ("containers.json", "volatile-containers.json")
LAYERS = ("layers.json", "volatile-layers.json")


def find_hazards(
    files: FilesView, configuration: CrioConfiguration, seen: RuntimeAtWork, *, silent: int = 0
) -> RestartHazards:
    """Return all known hazards of a restart.

    Args:
        silent: how many clients are connected without having made a call.
    """
    return RestartHazards(
        unit=tuple(_conmons_outlive_the_unit(files, seen)),
        pods=(),
        runtime=(
            *_processes_are_known(seen),
            *_handler_is_there(files, configuration),
            *_storage_knows_them(files, configuration, seen),
            *_nobody_keeps_it(seen.unit.name, silent),
        ),
    )


def _conmons_outlive_the_unit(files: FilesView, seen: RuntimeAtWork) -> Iterator[Finding]:
    """No conmon is in a control group of the unit, unless systemd only stops the main process.

    With ``cgroup_manager = "cgroupfs"`` on version 1 cgroups they all are, in the hierarchy of systemd. A conmon that
    systemd ends with SIGTERM ends its container; one that is killed leaves a container that looks well, whose output is
    lost and whose end nobody notices.
    """
    unit = seen.unit
    if unit.spares_others:
        return
    if inside := [c.label for c in seen.inventory.running() if _is_inside(files, c, unit.name)]:
        others = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
        detail = (
            f"unit {unit.name} has KillMode={unit.kill_mode}, and the conmon of {inside[0]}{others} is in its control "
            "group, so restarting it would end that and the container with it; set KillMode=process"
        )
        yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _is_inside(files: FilesView, container: ContainerInstance, unit: str) -> bool:
    """Report whether a container's conmon is in a control group of the unit, in any hierarchy."""
    if container.monitor is None:
        return False
    data = files.read(PurePosixPath(f"/proc/{container.monitor.pid}/cgroup")) or b""
    return any(unit in line.split("/") for line in data.decode(errors="replace").splitlines())


def _processes_are_known(seen: RuntimeAtWork) -> Iterator[Finding]:
    for container in seen.inventory.running():
        if container.process is None:
            detail = "it runs, but CRI-O's process of it is not there"
        elif container.monitor is None:
            detail = (
                f"process {container.process.pid} has no conmon, so that nobody keeps its output and notices its end"
            )
        else:
            continue
        detail += "; delete the pod first"
        yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)


def _handler_is_there(files: FilesView, configuration: CrioConfiguration) -> Iterator[Finding]:
    """A starting CRI-O asks this program about every container, and takes a container for ended if it fails."""
    name = configuration.default_runtime
    path = configuration.handlers.get(name, Handler()).path
    if path.startswith("/") and not files.executable(PurePosixPath(path)):
        detail = (
            f"{path}, the program of runtime handler {name}, cannot be executed: a restart would end every container"
        )
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail)


def _storage_knows_them(files: FilesView, configuration: CrioConfiguration, seen: RuntimeAtWork) -> Iterator[Finding]:
    """The storage has a record of every running container, and of its layer.

    CRI-O deletes what it finds otherwise; and if it was not stopped cleanly, it may wipe the whole storage.
    """
    places = [PurePosixPath(place) for place in (configuration.root, configuration.runroot)]
    try:
        layers_of = {
            str(record["id"]): str(record["layer"])
            for record in _records(
                files, [p / f"{configuration.driver}-containers" / n for p in places for n in RECORDS]
            )
        }
        layers = {
            str(record["id"])
            for record in _records(files, [p / f"{configuration.driver}-layers" / n for p in places for n in LAYERS])
        }
    except (StepFailed, ValueError, KeyError, TypeError) as error:
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=f"cannot read the records of CRI-O's storage: {error}")
        return
    for container in seen.inventory.running():
        layer = layers_of.get(container.id)
        if layer is None or layer not in layers:
            what = "it" if layer is None else "its layer"
            detail = f"CRI-O's storage in {configuration.root} has no record of {what}, and would lose it in a restart"
            yield Finding(
                reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=f"{detail}; delete the pod first"
            )


def _nobody_keeps_it(unit: str, silent: int) -> Iterator[Finding]:
    """A stopping CRI-O waits for clients that have made no call, until systemd kills it."""
    if silent:
        clients = "1 client is" if silent == 1 else f"{silent} clients are"
        detail = (
            f"{clients} connected to CRI-O without having made a call; it would wait for that when it stops, until "
            f"TimeoutStopSec of {unit} is over (90s by default), and the kubelet would be down as long"
        )
        remedy = "end that client (`ss --unix --processes` and the containers that are named as connected tell which)"
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail, remedy=remedy)


def _records(files: FilesView, paths: list[PurePosixPath]) -> Iterator[dict[str, object]]:
    for path in paths:
        data = files.read(path)
        yield from json.loads(data) if data else ()


# The part of CRI-O's configuration that decides whether it finds its containers again. Pure.
#
# A running CRI-O shows its configuration as TOML in which every setting stands. Its program prints, without starting,
# a commented TOML in which every setting that has its default is a comment; older ones print all of them.

COMMENTED_SETTING = re.compile(r'^# *(root|runroot|storage_driver|listen|default_runtime) = ("[^"\n]*")$', re.MULTILINE)
COMMENTED_HANDLER = re.compile(r"^# *\[crio\.runtime\.runtimes\.([\w-]+)\]\n((?:# *\w+ = .*\n)*)", re.MULTILINE)
HANDLER_SETTING = re.compile(r'^# *(runtime_path|runtime_root) = "([^"\n]*)"$', re.MULTILINE)


def configured(document: Mapping[str, Any]) -> CrioConfiguration:
    """Read a configuration in which every setting stands.

    Raises:
        KeyError, TypeError: a setting is missing, or is not of its type.
    """
    crio = document["crio"]
    runtime = crio["runtime"]
    handlers = {str(name): _handler(table) for name, table in runtime["runtimes"].items()}
    default_runtime = _text(runtime["default_runtime"])
    if (default := handlers.get(default_runtime)) is not None:
        heirs = (str(name) for name, table in runtime["runtimes"].items() if table.get("inherit_default_runtime"))
        handlers |= {name: replace(handlers[name], root=default.root) for name in heirs}
    return CrioConfiguration(
        root=_text(crio["root"]),
        runroot=_text(crio["runroot"]),
        driver=_text(crio["storage_driver"]),
        listen=_text(crio["api"]["listen"]),
        default_runtime=default_runtime,
        handlers=handlers,
    )


def printed(text: str) -> CrioConfiguration:
    """Read what CRI-O's program prints as its configuration.

    Raises:
        ValueError, KeyError, TypeError: it is not TOML, or a setting is missing.
    """
    document = tomllib.loads(text)
    defaults = {name: tomllib.loads(f"value = {value}")["value"] for name, value in COMMENTED_SETTING.findall(text)}
    crio = dict(document.get("crio", {}))
    runtime = dict(crio.get("runtime", {}))
    defaults_of = {name: dict(HANDLER_SETTING.findall(block)) for name, block in COMMENTED_HANDLER.findall(text)}
    handlers: dict[str, Any] = defaults_of | dict(runtime.get("runtimes", {}))
    runtime = {**_named(defaults, "default_runtime"), **runtime, "runtimes": handlers}
    api = {**_named(defaults, "listen"), **crio.get("api", {})}
    base = _named(defaults, "root", "runroot", "storage_driver")
    return configured({"crio": {**base, **crio, "api": api, "runtime": runtime}})


def harm(running: CrioConfiguration, following: CrioConfiguration) -> Iterator[str]:
    """Yield the differences for which CRI-O would take running containers for ended.

    It asks the program of each container's handler whether that runs, and writes down what it hears.
    """
    if running.default_runtime != following.default_runtime:
        yield (
            f"default_runtime would be {following.default_runtime} instead of {running.default_runtime}, which knows "
            "of no container that runs"
        )
    for name, now in running.handlers.items():
        if (then := following.handlers.get(name)) is None:
            yield f"there would be no runtime handler {name}, so that its containers would be removed"
            continue
        if now.path and then.path and now.path != then.path:
            yield f"runtime handler {name} would be {then.path} instead of {now.path}"
        if now.root is not None and then.root is not None and now.root != then.root:
            yield (
                f"runtime_root of runtime handler {name} would be {then.root or 'the default'} instead of "
                f"{now.root or 'the default'}, and its program would know of no container that runs: all of them would "
                "end; do not restart CRI-O before that is put back"
            )


def _handler(table: Mapping[str, object]) -> Handler:
    root = table.get("runtime_root")
    return Handler(path=_text(table.get("runtime_path", "")), root=None if root is None else _text(root))


def _named(settings: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: settings[name] for name in names if name in settings}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
