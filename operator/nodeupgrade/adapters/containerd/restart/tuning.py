"""Gives shims more time to answer a restarted containerd, during a run only.

A starting containerd connects to every pod's shim; one that does not answer within five seconds is considered dead,
and its containers are killed. On a busy node that costs pods. The limit can be raised only in containerd's
configuration, so during the run systemd starts containerd with a configuration that imports the node's own. That file
and the drop-in for it are on tmpfs (/run); the node's own files are not touched. See
docs/decisions/containerd.md.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from nodeupgrade.adapters.containerd.kind import DROP_IN, TUNED_CONFIG
from nodeupgrade.adapters.containerd.program import Configuration, Shows
from nodeupgrade.adapters.containerd.restart.command_line import STANDARD_INPUT, ContainerdStart, read_start
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.runtime import RestartTuning, TuningFile
from nodeupgrade.domain.node.units.status import UnitStatus
from nodeupgrade.kubelet.flags import command_line
from nodeupgrade.ports.node.files import FilesView

SETTING = "io.containerd.timeout.shim.load"
USUAL, RAISED = "5s", "20s"
"""The raised limit fits into the default kubelet-down budget; a longer wait would roll the run back."""
VERSIONS = (2, 3)


def find(files: FilesView, shows: Shows, unit: UnitStatus) -> RestartTuning:
    """Find a configuration that raises the limit and changes nothing else, according to the program's own dump."""
    if (start := read_start(unit.command)) is None:
        return _unchanged(
            f"{unit.name} starts it in a way that is not known ({' '.join(unit.command) or 'no command'})"
        )
    try:
        own = files.read(PurePosixPath(start.config))
        # ``config dump`` fails without a configuration file, so a missing one is replaced by an empty one.
        before = shows.configuration(start.words(None if own is not None or start.named else STANDARD_INPUT))
        if before is None:
            return _unchanged(f"{start.program} does not show its configuration")
        if (current := limit_in(before)) != USUAL:
            return _unchanged(f"its configuration sets {current}")
        for config in candidates(start, own):
            after = _tried(shows, start, config)
            if after is not None and only_raises(before, after):
                return raised(start, config)
    except (StepFailed, ValueError) as error:
        return _unchanged(str(error))
    return _unchanged(f"{start.config} cannot be imported without changing anything else")


def _tried(shows: Shows, start: ContainerdStart, config: bytes) -> Configuration | None:
    try:
        return shows.configuration(start.words(STANDARD_INPUT), config)
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
    drop_in = f"# Written by nodeupgrade for the time of one run.\n[Service]\nExecStart=\nExecStart={line}\n"
    return RestartTuning(
        why=f"shims get {RAISED} instead of {USUAL} to answer the restarted runtime",
        files=(
            TuningFile(path=str(TUNED_CONFIG), content=config),
            TuningFile(path=str(DROP_IN), content=drop_in.encode()),
        ),
    )


def _unchanged(because: str) -> RestartTuning:
    return RestartTuning(why=f"shims get no more time than usual to answer the restarted runtime: {because}")


def _others(dump: Configuration) -> dict[str, object]:
    timeouts = dump.get("timeouts")
    others = {k: v for k, v in timeouts.items() if k != SETTING} if isinstance(timeouts, Mapping) else timeouts
    return {**{k: v for k, v in dump.items() if k != "imports"}, "timeouts": others}
