"""Compares a unit's files with what systemd has loaded of them.

``NeedDaemonReload`` says that a file was written since, not that it says something else: where a unit writes a drop-in
of its own at each start, as kubelets of KubeOne and KKP do with their address, it is ``yes`` all the time.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field

from nodeupgrade.node.host.systemd.drop_ins import decisive_settings
from nodeupgrade.node.host.systemd.units import UnitStatus

_COMMANDS = frozenset({"ExecCondition", "ExecStart", "ExecStartPre", "ExecStartPost", "ExecStop", "ExecStopPost"})
_UNKNOWN = frozenset("\\%'$")
"""What systemd may read in another way than a shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile:
    """One of a unit's files, as it is on disk now."""

    content: bytes
    written: bool  # whether it was written after systemd had loaded it, or that is not known


@dataclass(slots=True)
class _Settings:
    """The settings that decide what is started, by all files of a unit in their order."""

    environment: dict[str, str] = field(default_factory=dict)
    environment_files: list[tuple[str, bool]] = field(default_factory=list)
    commands: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)

    def read(self, key: str, value: str) -> bool:
        """Take a setting in; report whether it is one that can be compared."""
        section, _, name = key.partition(" ")
        if section != "[Service]":
            return False
        if name == "Environment":
            return self._assign(value)
        if name == "EnvironmentFile":
            found = [(value.removeprefix("-"), not value.startswith("-"))]
            self.environment_files = [*self.environment_files, *found] if value else []
            return True
        if name in _COMMANDS:
            found = [(value.removeprefix("-"), value.startswith("-"))]
            self.commands[name] = [*self.commands.get(name, ()), *found] if value else []
            return True
        return False

    def _assign(self, value: str) -> bool:
        if not value:
            self.environment.clear()
            return True
        try:
            words = () if _UNKNOWN & {*value} else shlex.split(value)
        except ValueError:
            words = ()
        self.environment.update(word.partition("=")[::2] for word in words)
        return bool(words)


def say_what_is_loaded(unit: UnitStatus, files: Iterable[ReadFile]) -> bool:
    """Report whether a unit's files start just what systemd has loaded.

    Args:
        unit: what systemd shows.
        files: the unit file, and all drop-ins in the order in which they apply.

    Returns:
        False as well if a file that was written since sets anything but commands and environment.
    """
    found = _Settings()
    for file in files:
        for setting in decisive_settings(file.content):
            key, _, value = setting.partition("=")
            if not found.read(key, value) and file.written:
                return False
    loaded: dict[str, list[tuple[str, bool]]] = {}
    for command in unit.commands:
        loaded.setdefault(command.when, []).append((command.line, command.may_fail))
    return (
        found.environment == dict(each.partition("=")[::2] for each in unit.environment)
        and tuple(found.environment_files) == unit.environment_files
        and {name: lines for name, lines in found.commands.items() if lines} == loaded
    )
