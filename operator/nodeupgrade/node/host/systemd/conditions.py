"""Which conditions and assertions about paths a unit has that do not hold now.

systemd tests them when it starts a unit, and never for one that runs; `systemctl show` does not print them. Without a
condition it skips the start, which counts as success; without an assertion the start fails. Seen with systemd 252.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import EntryKind, FilesView
from nodeupgrade.node.host.systemd.drop_ins import decisive_settings, is_own_drop_in
from nodeupgrade.node.host.systemd.units import UnitStatus

_SETTING = re.compile(r"\[Unit\] ((Condition|Assert)\w+)=(\|?) ?(!?) ?(.*)", re.ASCII)
_PATH = re.compile(r"/[^% ]*")
"""Without specifiers, nor blanks, of which only one of several in a row is left here."""


def _of_kind(kind: EntryKind, more: Callable[[FilesView, PurePosixPath], object]) -> "_Test":
    def holds(files: FilesView, path: PurePosixPath) -> bool:
        entry = files.entry(path)
        return entry is not None and entry.kind is kind and bool(more(files, path))

    return holds


_Test = Callable[[FilesView, PurePosixPath], bool]
_TESTS: Mapping[str, _Test] = {
    "PathExists": lambda files, path: files.entry(path) is not None,
    "PathIsDirectory": _of_kind(EntryKind.DIRECTORY, lambda _files, _path: True),
    "DirectoryNotEmpty": _of_kind(EntryKind.DIRECTORY, lambda files, path: not files.is_empty(path)),
    "FileNotEmpty": _of_kind(EntryKind.FILE, lambda files, path: files.size(path)),
    "FileIsExecutable": _of_kind(EntryKind.FILE, lambda files, path: files.executable(path)),
}
"""What is tested here. Other kinds hold: most of them are about the kernel and the machine, and so since the boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Condition:
    name: str  # ``ConditionPathExists``
    triggers: bool  # whether it is enough that one of those that trigger holds
    negated: bool
    value: str

    def __str__(self) -> str:
        return f"{self.name}={'|' if self.triggers else ''}{'!' if self.negated else ''}{self.value}"

    def holds(self, files: FilesView) -> bool:
        """Report whether it holds, or is not known not to; systemd ignores paths that are not plain and absolute."""
        test = _TESTS.get(self.name.removeprefix("Condition").removeprefix("Assert"))
        path = PurePosixPath(self.value)
        if test is None or not _PATH.fullmatch(self.value) or ".." in path.parts or not self.value.isprintable():
            return True
        try:
            return test(files, files.follow(path)) is not self.negated
        except StepFailed:  # it cannot be looked at
            return True


def unmet_conditions(files: FilesView, unit: UnitStatus) -> Iterator[str]:
    """Yield the conditions and assertions of a unit's files that do not hold, without those of a run's own fence."""
    listed: dict[str, list[_Condition]] = {"Condition": [], "Assert": []}
    own = (path for path in (unit.fragment_path, *unit.drop_ins) if path and not is_own_drop_in(path))
    for setting in (each for path in own for each in decisive_settings(files.read(PurePosixPath(path)))):
        if (found := _SETTING.fullmatch(setting)) is None:
            continue
        name, kind, triggers, negated, value = found.groups()
        if value:
            each = _Condition(name=name, triggers=bool(triggers), negated=bool(negated), value=value)
            listed[kind].append(each)
        else:  # whatever its kind, it resets all
            listed[kind].clear()
    for conditions in listed.values():
        yield from (str(each) for each in conditions if not each.triggers and not each.holds(files))
        triggering = [each for each in conditions if each.triggers]
        if triggering and not any(each.holds(files) for each in triggering):
            yield " or ".join(map(str, triggering))
