"""Gives shims more time to answer a restarted containerd, and containerd less time to stop, during a run only.

A starting containerd considers a shim dead that does not answer within five seconds, and kills its containers. The
limit can be raised only in containerd's configuration, so during the run systemd starts containerd with a configuration
that imports the node's own. That file and its drop-in are on tmpfs (/run). See docs/decisions/containerd.md.
"""

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed, TimedOut
from nodeupgrade.kubelet.flags import command_line
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.containerd.command_line import (
    STANDARD_INPUT,
    TUNED_CONFIG,
    ContainerdStart,
    parse_command_line,
)
from nodeupgrade.node.runtimes.containerd.next_start import UNIT, Configuration, ContainerdProgram, dump_configuration
from nodeupgrade.node.runtimes.description import TRANSIENT_UNITS, RestartTuning, TuningFile
from nodeupgrade.text import parse_toml

DROP_IN = TRANSIENT_UNITS / f"{UNIT}.d" / "zz-nodeupgrade-shims.conf"
"""Named to sort last: drop-ins apply in the order of their names, and the last ExecStart wins."""
SETTING = "io.containerd.timeout.shim.load"
USUAL, RAISED = "5s", "20s"
"""The raised limit fits into the default kubelet-down budget; a longer wait would roll the run back."""
VERSIONS = (2, 3)
STOPS_WITHIN = "10s"
"""Then systemd kills containerd: it waits up to 120 s for a client that has connected and made no call."""


def find_tuning(files: FilesView, program: ContainerdProgram, unit: UnitStatus) -> RestartTuning:
    """Find a configuration that raises the limit and changes nothing else, according to the program's own dump."""
    if unit.name != UNIT:  # a cleanup without a plan only knows the drop-in directory of this one
        return RestartTuning(why=f"the runtime is restarted as it is configured: it runs as {unit.name}")
    if (start := parse_command_line(unit.command)) is None:
        return _unchanged(
            f"{unit.name} starts it by an unknown command line ({' '.join(unit.command) or 'no command'})"
        )
    try:
        own, before = files.read(PurePosixPath(start.config)), dump_configuration(files, program, start)
        if (current := limit_in(before)) != USUAL:
            return _unchanged(f"its configuration sets {current}")
        for config in candidates(start, own):
            after = _tried(program, start, config)
            if after is not None and only_raises(before, after):
                return raise_limit(start, config)
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
        versions = (parse_toml(own).get("version"),)
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


def raise_limit(start: ContainerdStart, config: bytes) -> RestartTuning:
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
