"""More time for shims to answer a containerd that is restarted, for as long as a run lasts.

A containerd that starts asks every pod's shim to answer, and takes one that does not within five seconds for dead: it
kills what the shim looks after. On a busy node that costs pods. The limit can only be raised in the configuration of
containerd, so for the run systemd starts it with a configuration of ours that imports the node's own. Both files lie
in memory, and nothing of the node's own is touched. See docs/decisions/shims-get-more-time.md.
"""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from nodeupgrade.adapters.containerd.kind import DROP_IN, TUNED_CONFIG
from nodeupgrade.adapters.containerd.program import Configuration, Shows
from nodeupgrade.adapters.containerd.restart.command_line import STANDARD_INPUT, ContainerdStart, read_start
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.host import UnitStatus
from nodeupgrade.domain.node.runtime import RestartTuning, TuningFile
from nodeupgrade.kubelet.flags import command_line
from nodeupgrade.ports.files import FilesView

SETTING = "io.containerd.timeout.shim.load"
USUAL, RAISED = "5s", "20s"
"""Raised to what still fits into the time that a kubelet may be down by default: a longer wait turns the run back."""
VERSIONS = (2, 3)


def find(files: FilesView, shows: Shows, unit: UnitStatus) -> RestartTuning:
    """Try how the limit can be raised and nothing else changed; the program says what it makes of it."""
    if (start := read_start(unit.command)) is None:
        return _unchanged(
            f"{unit.name} starts it in a way that is not known ({' '.join(unit.command) or 'no command'})"
        )
    try:
        own = files.read(PurePosixPath(start.config))
        # Where there is none, an empty one stands for it: the program fails to dump what it would do without.
        before = shows.configuration(start.words(None if own is not None or start.named else STANDARD_INPUT))
        if before is None:
            return _unchanged(f"{start.program} does not show its configuration")
        if (now := limit_in(before)) != USUAL:
            return _unchanged(f"its configuration sets {now}")
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
    """Configurations that import the node's ``own`` and raise the limit; which of them do nothing else is to be tried.

    Raises:
        ValueError: the node's own is not TOML.
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
    """The limit in a configuration as containerd shows it."""
    timeouts = dump.get("timeouts")
    return str(timeouts[SETTING]) if isinstance(timeouts, Mapping) and SETTING in timeouts else None


def only_raises(before: Configuration, after: Configuration) -> bool:
    """Whether two configurations, as containerd shows them, are the same but for the limit."""
    return limit_in(after) == RAISED and _others(before) == _others(after)


def raised(start: ContainerdStart, config: bytes) -> RestartTuning:
    """The limit as it is raised for the run."""
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
    kept = {k: v for k, v in timeouts.items() if k != SETTING} if isinstance(timeouts, Mapping) else timeouts
    return {**{k: v for k, v in dump.items() if k != "imports"}, "timeouts": kept}
