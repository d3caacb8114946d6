"""More time for shims to answer a runtime that is restarted, for as long as a run lasts.

A containerd that starts asks every pod's shim to answer, and takes one that does not within five seconds for dead: it
kills what the shim looks after. On a busy node that costs pods. The limit can only be raised in the configuration of
containerd, so for the run systemd starts it with a configuration of ours that imports the node's own. Both files lie
in memory, and nothing of the node's own is touched. See docs/decisions/shims-get-more-time.md.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.kubelet.flags import command_line

SETTING = "io.containerd.timeout.shim.load"
USUAL, RAISED = "5s", "20s"
"""Raised to what still fits into the time that a kubelet may be down by default: a longer wait turns the run back."""

CONFIG = PurePosixPath("/run/nodeupgrade-containerd.toml")
STANDARD_INPUT = "/dev/stdin"
VERSIONS = (2, 3)
_DEFAULT_CONFIG = "/etc/containerd/config.toml"
_WITH_VALUE = {"-c": "--config", "-l": "--log-level", "-a": "--address"}
_FLAGS = frozenset({"--config", "--log-level", "--address", "--root", "--state"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimLimit:
    """How long shims get in the restart of one run.

    Attributes:
        why: in words, for the journal.
        config: the configuration for the run; empty if nothing is raised.
        drop_in: what makes systemd start the runtime with it.
    """

    why: str = "shims get as long as the runtime's configuration says"
    config: bytes = b""
    drop_in: bytes = b""

    @property
    def raised(self) -> bool:
        """Whether they get more time than usual."""
        return bool(self.config)


AS_CONFIGURED = ShimLimit()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How a unit starts containerd.

    Attributes:
        config: its configuration file, which need not exist unless it is ``named`` on the command line.
        others: the rest of the command line.
    """

    program: str
    config: str
    named: bool
    others: tuple[str, ...]

    def words(self, config: str | None) -> tuple[str, ...]:
        """The command line with that configuration; without any, as the unit has it."""
        chosen = config or (self.config if self.named else None)
        return (self.program, *(("--config", chosen) if chosen else ()), *self.others)


def drop_in_path(unit: str) -> PurePosixPath:
    """Drop-ins apply in the order of their names, and the last ExecStart counts."""
    return PurePosixPath("/run/systemd/system", f"{unit}.d", "zz-nodeupgrade-shims.conf")


def read_start(words: tuple[str, ...]) -> Start | None:
    """Understand a command line; ``None`` if there is anything unknown in it."""
    if not words or PurePosixPath(words[0]).name != "containerd":
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
    return Start(program=words[0], config=config or _DEFAULT_CONFIG, named=config is not None, others=tuple(others))


def candidates(start: Start, own: bytes | None) -> Iterator[bytes]:
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


def limit_in(dump: Mapping[str, object]) -> str | None:
    """The limit in a configuration as containerd shows it."""
    timeouts = dump.get("timeouts")
    return str(timeouts[SETTING]) if isinstance(timeouts, Mapping) and SETTING in timeouts else None


def only_raises(before: Mapping[str, object], after: Mapping[str, object]) -> bool:
    """Whether two configurations, as containerd shows them, are the same but for the limit."""
    return limit_in(after) == RAISED and _others(before) == _others(after)


def raised(start: Start, config: bytes) -> ShimLimit:
    """The limit as it is raised for the run."""
    line = command_line(start.words(str(CONFIG)))
    drop_in = f"# Written by nodeupgrade for the time of one run.\n[Service]\nExecStart=\nExecStart={line}\n"
    return ShimLimit(
        why=f"shims get {RAISED} instead of {USUAL} to answer the restarted runtime",
        config=config,
        drop_in=drop_in.encode(),
    )


def unchanged(because: str) -> ShimLimit:
    """The limit stays what it is."""
    return ShimLimit(why=f"shims get no more time than usual to answer the restarted runtime: {because}")


def _others(dump: Mapping[str, object]) -> dict[str, object]:
    timeouts = dump.get("timeouts")
    kept = {k: v for k, v in timeouts.items() if k != SETTING} if isinstance(timeouts, Mapping) else timeouts
    return {**{k: v for k, v in dump.items() if k != "imports"}, "timeouts": kept}
