"""Finds out how containerd would start next time, from its program's own reading of its configuration."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeAlias

from nodeupgrade.adapters.cri.restart import killed_with_unit, numbers
from nodeupgrade.adapters.proc.processes import NodeProgram
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.domain.errors import StepFailed, TimedOut
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.runtime import (
    TRANSIENT_UNITS,
    NextStart,
    RestartHazards,
    RestartTuning,
    RuntimeAtWork,
    RuntimeKind,
    RuntimePlaces,
    RuntimeProcess,
    TuningFile,
)
from nodeupgrade.domain.node.systemd_units import UnitStatus
from nodeupgrade.kubelet.flags import command_line
from nodeupgrade.ports.files import FilesView

UNIT = "containerd.service"
TUNED_CONFIG = PurePosixPath("/run/nodeupgrade-containerd.toml")
"""containerd's configuration during a run."""
DROP_IN = TRANSIENT_UNITS / f"{UNIT}.d" / "zz-nodeupgrade-shims.conf"
"""Named to sort last: drop-ins apply in the order of their names, and the last ExecStart wins."""

CONTAINERD = RuntimeKind(
    name=SupportedRuntime.CONTAINERD,
    unit=UNIT,
    other_units=True,
    tuning=(TUNED_CONFIG, DROP_IN),
    exchangeable_socket=True,
)

Configuration: TypeAlias = Mapping[str, object]
"""The complete configuration, as ``containerd config dump`` prints it."""


class ContainerdProgram(NodeProgram):
    """Runs containerd's program; needs no running daemon."""

    VERSION = re.compile(r"^\S+\s+\S+\s+v?(\S+)")
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
            return tomllib.loads(printed.decode())
        except ValueError:
            return None


def find_next_start(
    files: FilesView, program: ContainerdProgram, unit: UnitStatus, running: RuntimeProcess | None
) -> NextStart:
    """Ask the program on disk, with the unit's command line or, if that is unknown, the running process's."""
    command = () if running is None else running.words
    start = read_start(unit.command) or read_start(command)
    dump, places, complaint, unknown = None, None, "", ""
    try:
        if start is None or start.config == str(TUNED_CONFIG):
            complaint = "it is started in a way that is not known"
        else:
            dump = _dump(files, program, start)
            places = _places(dump, start)
    except TimedOut as error:
        unknown = str(error)
    except StepFailed as error:
        complaint = str(error)
    return NextStart(
        program=unit.program if start is None else start.program,
        starter="" if PurePosixPath(unit.program).name == PROGRAM_NAME else unit.program,
        as_it_runs=is_same_start(unit.command, command),
        places=places,
        complaint=complaint,
        unknown=unknown,
        files=() if start is None else _files(start, dump),
        directories=() if start is None else tuple(dict.fromkeys(_searched(files, PurePosixPath(start.config)))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerdStart:
    """A parsed command line of containerd."""

    program: str
    config: str  # its configuration file; it need not exist unless it is ``named`` on the command line
    named: bool  # whether the command line names the configuration file
    others: tuple[str, ...]  # all other flags, each followed by its value

    def words(self, config: str | None) -> tuple[str, ...]:
        """Return the command line with that configuration file, or with the unit's own if ``None``."""
        path = config or (self.config if self.named else None)
        return (self.program, *(("--config", path) if path else ()), *self.others)


def _dump(files: FilesView, program: ContainerdProgram, start: ContainerdStart) -> Configuration:
    # ``config dump`` fails without a configuration file, so a missing one is replaced by an empty one.
    has_file = files.read(PurePosixPath(start.config)) is not None
    command = start.words(None if has_file or start.named else STANDARD_INPUT)
    try:
        dump = program.configuration(command)
    except TimedOut:
        raise
    except StepFailed as error:
        if NO_SUCH_COMMAND in str(error):
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
    return tuple(dict.fromkeys([start.config, *(str(path) for path in paths if path != STANDARD_INPUT)]))


def _searched(files: FilesView, config: PurePosixPath) -> Iterator[str]:
    """Yield the directories that the configuration searches for imports by a pattern."""
    try:
        patterns = tomllib.loads((files.read(config) or b"").decode()).get("imports", [])
    except ValueError:  # not TOML, which the program reports itself
        return
    for pattern in patterns if isinstance(patterns, list) else []:
        if "*" in str(pattern):
            yield str((config.parent / str(pattern)).parent)


# Known hazards of restarting containerd: its unit, its version, and shims that it may fail to reconnect to.

SHIM_SECONDS = 2.5
"""Half the time that a starting containerd waits for a shim (io.containerd.timeout.shim.load, 5 s)."""

# Ranges of versions (first, last) that must not be restarted, with the consequence.
UNRESTARTABLE = (
    ((1, 6, 9), (1, 6, 13), "forgets the addresses of pods when it is restarted (#7843), so any kubelet replaces them"),
    ((2, 0, 0), (2, 0, 5), "may not start again after a restart (#10848)"),
    ((2, 1, 0), (2, 1, 3), "may not start again after a restart (#10848)"),
    ((2, 3, 0), (2, 3, 1), "may end a container that is created while others are looked at (#13512)"),
)

BUNDLES = PurePosixPath("io.containerd.runtime.v2.task", "k8s.io")
"""Below the directory for state: one directory for each container and sandbox."""
SHIM_PATH = "shim-binary-path"


def find_hazards(files: FilesView, seen: RuntimeAtWork) -> RestartHazards:
    """Return all known hazards of a restart."""
    return RestartHazards(
        unit=killed_with_unit(seen.unit),
        pods=(*_pods_have_one_shim(seen.inventory), *_shims_are_installed(files, seen)),
        runtime=(*_version_survives_restarts(seen), *_shims_answer(seen)),
    )


def _pods_have_one_shim(inventory: Inventory) -> Iterator[Finding]:
    """Every container is served by the shim of its sandbox, where shims serve whole pods.

    A containerd that cannot reach a sandbox's shim within 100 ms starts a second one for the container, and the
    first one loses its socket. Such a pod runs well until containerd is restarted, which kills it.
    """
    for container in inventory.running():
        sandbox = inventory.sandbox(container.sandbox_id)
        if container.monitor is None or sandbox is None or sandbox.monitor in {None, container.monitor}:
            continue
        detail = (
            "it has a shim of its own beside that of its pod, so any restart of the runtime would kill the pod "
            f"(process {container.monitor.pid}); delete the pod first"
        )
        yield Finding(reason=Reason.POD_HAS_TWO_MONITORS, subject=container.label, detail=detail)


def _shims_are_installed(files: FilesView, seen: RuntimeAtWork) -> Iterator[Finding]:
    """The program of every shim still is where it was when the shim was started.

    containerd keeps that path beside the shim's socket. If there is nothing at the path when containerd starts, it does
    not connect to the shim and cleans up what it manages (core/runtime/v2/shim_load.go).
    """
    if seen.info.places is None:
        return
    bundles = PurePosixPath(seen.info.places.state) / BUNDLES
    pods = {str(sandbox.id): str(sandbox.pod) for sandbox in seen.inventory.sandboxes}
    pods |= {str(container.id): str(container.pod) for container in seen.inventory.running()}
    recorded = {id_: (files.read(bundles / id_ / SHIM_PATH) or b"").decode(errors="replace") for id_ in pods}
    gone = {path for path in {*recorded.values()} if path.startswith("/") and files.real(PurePosixPath(path)) is None}
    for pod, path in dict.fromkeys((pods[id_], path) for id_, path in recorded.items() if path in gone):
        detail = f"its shim was started from {path}, which is gone: any restart of the runtime would kill the pod"
        remedy = f"put the program back, at least as a link at {path}, or delete the pod"
        yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=pod, detail=detail, remedy=remedy)


def _version_survives_restarts(seen: RuntimeAtWork) -> Iterator[Finding]:
    version = numbers(seen.info.version)
    for first, last, consequence in UNRESTARTABLE:
        if first <= version <= last:
            detail = f"{seen.info.name} {seen.info.version} {consequence}; upgrade it first"
            yield Finding(reason=Reason.UNSUPPORTED_RUNTIME, detail=detail)


def _shims_answer(seen: RuntimeAtWork) -> Iterator[Finding]:
    """Every pod's shim answers in time. Listing tasks measures that, since containerd asks every shim.

    A starting containerd considers a shim dead that does not answer within 5 s, and kills its containers.
    """
    if seen.listing_seconds > SHIM_SECONDS:
        detail = (
            f"{seen.info.name} took {seen.listing_seconds:.1f} s to list its tasks, more than {SHIM_SECONDS} s: "
            "the node is too busy for a restart of the runtime, which kills containers whose shims answer too late"
        )
        yield Finding(reason=Reason.RUNTIME_NOT_READY, detail=detail)
    for container in seen.inventory.running():
        if container.process is None:
            detail = "it runs, but nobody knows its process: its shim does not answer, and a restart would kill it"
            yield Finding(reason=Reason.RUNTIME_NOT_READY, subject=container.label, detail=detail)


# Gives shims more time to answer a restarted containerd, and containerd less time to stop, during a run only.
#
# A starting containerd connects to every pod's shim; one that does not answer within five seconds is considered dead,
# and its containers are killed. On a busy node that costs pods. The limit can be raised only in containerd's
# configuration, so during the run systemd starts containerd with a configuration that imports the node's own. That file
# and the drop-in for it are on tmpfs (/run); the node's own files are not touched. See
# docs/decisions/containerd.md.

SETTING = "io.containerd.timeout.shim.load"
USUAL, RAISED = "5s", "20s"
"""The raised limit fits into the default kubelet-down budget; a longer wait would roll the run back."""
VERSIONS = (2, 3)
STOPS_WITHIN = "10s"
"""Then systemd kills containerd: it waits up to 120 s for a client that has connected and made no call."""


def find_tuning(files: FilesView, program: ContainerdProgram, unit: UnitStatus) -> RestartTuning:
    """Find a configuration that raises the limit and changes nothing else, according to the program's own dump."""
    if unit.name != UNIT:  # what is cleaned up without a plan is what lies in the directory of this one
        return RestartTuning(why=f"the runtime is restarted as it is configured: it runs as {unit.name}")
    if (start := read_start(unit.command)) is None:
        return _unchanged(
            f"{unit.name} starts it in a way that is not known ({' '.join(unit.command) or 'no command'})"
        )
    try:
        own, before = files.read(PurePosixPath(start.config)), _dump(files, program, start)
        if (current := limit_in(before)) != USUAL:
            return _unchanged(f"its configuration sets {current}")
        for config in candidates(start, own):
            after = _tried(program, start, config)
            if after is not None and only_raises(before, after):
                return raised(start, config)
    except (StepFailed, ValueError) as error:
        return _unchanged(str(error))
    return _unchanged(f"{start.config} cannot be imported without changing anything else")


def _tried(program: ContainerdProgram, start: ContainerdStart, config: bytes) -> Configuration | None:
    try:
        return program.configuration(start.words(STANDARD_INPUT), config)
    except TimedOut:
        raise
    except StepFailed:
        return None


def candidates(start: ContainerdStart, own: bytes | None) -> Iterator[bytes]:
    """Yield configurations that import the node's ``own`` and raise the limit; the caller checks for side effects.

    Raises:
        ValueError: the node's own configuration is not TOML.
    """
    if own is None:
        versions: tuple[object, ...] = (None, *VERSIONS)
    else:
        versions = (tomllib.loads(own.decode()).get("version"),)
    for version in versions:
        lines = ["# Written by nodeupgrade for the time of one run."]
        lines += [] if version is None else [f"version = {version}"]
        lines += [] if own is None else [f'imports = ["{start.config}"]']
        yield "\n".join([*lines, "", "[timeouts]", f'  "{SETTING}" = "{RAISED}"', ""]).encode()


def limit_in(dump: Configuration) -> str | None:
    """Return the limit in a dumped configuration."""
    timeouts = dump.get("timeouts")
    return str(timeouts[SETTING]) if isinstance(timeouts, Mapping) and SETTING in timeouts else None


def only_raises(before: Configuration, after: Configuration) -> bool:
    """Report whether ``after`` has the raised limit and differs from ``before`` in nothing else (both dumped)."""
    return limit_in(after) == RAISED and _others(before) == _others(after)


def raised(start: ContainerdStart, config: bytes) -> RestartTuning:
    """Return the tuning that raises the limit during the run."""
    line = command_line(start.words(str(TUNED_CONFIG)))
    return RestartTuning(
        why=f"shims get {RAISED} instead of {USUAL} to answer the restarted runtime",
        files=(TuningFile(path=str(TUNED_CONFIG), content=config), _drop_in("ExecStart=", f"ExecStart={line}")),
    )


def _unchanged(because: str) -> RestartTuning:
    why = f"shims get no more time than usual to answer the restarted runtime: {because}"
    return RestartTuning(why=why, files=(_drop_in(),))


def _drop_in(*start: str) -> TuningFile:
    lines = ("# Written by nodeupgrade for the time of one run.", "[Service]", f"TimeoutStopSec={STOPS_WITHIN}", *start)
    return TuningFile(path=str(DROP_IN), content="".join(f"{line}\n" for line in lines).encode())


def _others(dump: Configuration) -> dict[str, object]:
    timeouts = dump.get("timeouts")
    others = {k: v for k, v in timeouts.items() if k != SETTING} if isinstance(timeouts, Mapping) else timeouts
    return {**{k: v for k, v in dump.items() if k != "imports"}, "timeouts": others}


# Parses the command line that starts containerd. An unknown option makes the whole line unknown: no guessing.

PROGRAM_NAME = "containerd"
NO_SUCH_COMMAND = "No help topic for 'dump'"
"""How a containerd answers that has no ``config dump``."""
STANDARD_INPUT = "/dev/stdin"
_DEFAULT_CONFIG = "/etc/containerd/config.toml"
_WITH_VALUE = {"-c": "--config", "-l": "--log-level", "-a": "--address"}
_FLAGS = frozenset({"--config", "--log-level", "--address", "--root", "--state"})


def read_start(words: tuple[str, ...]) -> ContainerdStart | None:
    """Parse a command line; ``None`` if any part of it is unknown."""
    if not words or PurePosixPath(words[0]).name != PROGRAM_NAME:
        return None
    config, others = None, []
    rest = list(words[1:])
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        name = _WITH_VALUE.get(name, f"-{name}" if f"-{name}" in _FLAGS else name)
        if name not in _FLAGS or (not equals and not rest):
            return None
        value = value if equals else rest.pop(0)
        if name == "--config":
            config = value
        else:
            others += [name, value]
    return ContainerdStart(
        program=words[0], config=config or _DEFAULT_CONFIG, named=config is not None, others=tuple(others)
    )


def is_same_start(command: tuple[str, ...], running: tuple[str, ...]) -> bool:
    """Report whether a unit would start containerd as it runs now.

    A process that runs with TUNED_CONFIG, from a run of nodeupgrade, counts as running with the node's configuration.
    """
    planned, now = read_start(command), read_start(running)
    if planned is None or now is None:
        return command == running
    same_config = now.config in {planned.config, str(TUNED_CONFIG)}
    return same_config and (planned.program, planned.others) == (now.program, now.others)
