"""Parses the command line that starts containerd. An unknown option makes the whole line unknown."""

from dataclasses import dataclass
from pathlib import PurePosixPath

TUNED_CONFIG = PurePosixPath("/run/nodeupgrade-containerd.toml")
"""containerd's configuration during a run."""


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


PROGRAM_NAME = "containerd"
NO_SUCH_COMMAND = "No help topic for 'dump'"
"""Part of the error of a containerd that has no ``config dump``."""
STANDARD_INPUT = "/dev/stdin"
_DEFAULT_CONFIG = "/etc/containerd/config.toml"
_WITH_VALUE = {"-c": "--config", "-l": "--log-level", "-a": "--address"}
_FLAGS = frozenset({"--config", "--log-level", "--address", "--root", "--state"})


def parse_command_line(words: tuple[str, ...]) -> ContainerdStart | None:
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
    planned, now = parse_command_line(command), parse_command_line(running)
    if planned is None or now is None:
        return command == running
    same_config = now.config in {planned.config, str(TUNED_CONFIG)}
    return same_config and (planned.program, planned.others) == (now.program, now.others)
