"""A unit and its commands, as systemd reports them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from nodeupgrade.api.values import AwakeTime, Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCommand:
    """One command that systemd runs for a unit."""

    when: str  # the setting it comes from, for example ``ExecStartPre``
    program: str  # path of the program
    line: str  # the command line, words separated by blanks; systemd does not show where a quoted word ends
    may_fail: bool = False  # whether the unit continues if it fails

    def __str__(self) -> str:
        return f"{self.when}={'-' if self.may_fail else ''}{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStatus:
    """One unit, as ``systemctl show`` reports it."""

    name: str
    load_state: str  # ``loaded``, ``masked``, ``not-found`` …
    active_state: str  # ``active``, ``activating``, ``inactive``, ``failed`` …
    sub_state: str  # for example ``running``, ``auto-restart``
    main_pid: int  # 0 when no process runs
    kill_mode: str = "control-group"  # ``process``, ``control-group`` …
    fragment_path: str = ""  # the unit file; empty for units that have none
    result: str = "success"  # result of the last run, for example ``success``, ``exit-code``
    exit_status: int = 0  # exit status of the last main process that ended (ExecMainStatus); 0 if none has
    # units that stop or restart with this one (BoundBy, RequiredBy, ConsistsOf, PropagatesStopTo)
    bound_by: tuple[str, ...] = ()
    restarts: int = 0  # automatic restarts since the unit was last started manually (NRestarts)
    fenced: bool = False  # whether our fence (see ServiceManager.mask) is up
    program: str = ""  # first word of ExecStart, for example ``/usr/bin/kubelet``; empty if there are several or none
    command: tuple[str, ...] = ()  # all words of ExecStart; empty if they cannot be determined
    commands: tuple[UnitCommand, ...] = ()  # every command that systemd runs for it, including ExecStart
    drop_ins: tuple[str, ...] = ()  # paths of the drop-ins that systemd has read
    # path of each EnvironmentFile, and whether the unit needs it to start
    environment_files: tuple[tuple[str, bool], ...] = ()
    started: AwakeTime | None = None  # when its main process was started; None if it never was
    needs_reload: bool = False  # whether its files were changed after systemd read them
    # ExecStart as systemd shows it, without quotes and with variables not expanded; empty if there are several commands
    # or none
    start_line: str = ""
    environment: tuple[str, ...] = ()  # assignments of the unit's Environment setting
    # variables, or assignments, that it takes out of the environment in the end (UnsetEnvironment)
    unset: tuple[str, ...] = ()
    # when its main process was started by the wall clock of that time, in seconds since 1970
    started_at: float | None = None
    # within what time it must report to systemd (WatchdogSec), as systemd shows it; empty if it need not
    watchdog: str = ""
    control_group: str = ""  # its cgroup, as systemd names it; empty if it has none
    output: str = ""  # what keeps its messages from the node's journal, such as ``StandardError=file``; or empty
    search_path: str = ""  # where systemd looks for programs without a path, if the unit says so (ExecSearchPath)
    # settings with which systemd reboots or stops the machine once the unit stops or fails: ``FailureAction=reboot``
    ends_machine: tuple[str, ...] = ()
    transient: bool = False  # whether it was made while systemd ran, as by systemd-run: once stopped, it may be gone

    @property
    def spares_others(self) -> bool:
        """Report whether systemd, when it stops the unit, ends only its main process (KillMode)."""
        return self.kill_mode in {"process", "none"}

    @property
    def gone(self) -> bool:
        """Report whether nothing of it is left. A unit whose file was removed runs on until it is stopped."""
        return self.load_state == "not-found" and self.active_state == "inactive"

    @property
    def down(self) -> bool:
        """Report whether none of its processes runs, nor is about to."""
        return self.active_state in {"inactive", "failed"}

    @property
    def running(self) -> bool:
        """Report whether a main process runs now."""
        return self.active_state in {"active", "reloading"} and self.main_pid > 0


# Everything that a start of a unit reads, recorded when the run is planned, so that a change is cheap to detect.

_OURS = re.compile(r"\d\d-nodeupgrade-\w+\.conf|zz-nodeupgrade-\w+\.conf")
_GENERATED = "/run/systemd/generator"
"""Files below it are generated again at each ``daemon-reload``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitStart:
    """How a unit is started."""

    unit: str
    program: str  # path of the program that systemd runs
    commands: tuple[UnitCommand, ...]  # every command that systemd runs for the unit, the program's included
    # what affects the start: the unit's files, its environment files, programs and scripts that other commands run, and
    # what the program reads itself. By path: the digest of a file, the names in a directory or of a pattern, or an
    # empty string if there is none.
    files: Mapping[str, str]
    digest: Digest | None = None  # digest of the program, unless the run swaps it


def unit_files(unit: UnitStatus) -> tuple[str, ...]:
    """Return the files that define how a unit is started, without a run's own temporary drop-ins."""
    named = (unit.fragment_path, *unit.drop_ins, *(path for path, _ in unit.environment_files))
    return tuple(path for path in named if path and not path.startswith(_GENERATED) and not is_ours(path))


def is_ours(path: str) -> bool:
    """Report whether a drop-in is one that a run adds and removes."""
    return _OURS.fullmatch(PurePosixPath(path).name) is not None


USUAL_DROP_IN, OF_DROP_IN = "90-nodeupgrade.conf", ".nodeupgrade.conf"


def last_drop_in(unit: UnitStatus) -> str:
    """Return the name of a drop-in that applies after all others, since one that sets ExecStart would replace ours.

    systemd applies drop-ins in the order of their names, whatever directory they are in. One of ``spec.files`` may not
    set ExecStart.
    """
    last = max((PurePosixPath(path).name for path in unit.drop_ins if not is_ours(path)), default="")
    if last <= USUAL_DROP_IN:
        return USUAL_DROP_IN
    # One of an earlier run is replaced, also where the drop-in that it came after is gone.
    return last if last.endswith(OF_DROP_IN) else last.removesuffix(".conf") + OF_DROP_IN


# A run adds a drop-in to the kubelet's unit and removes it while the new kubelet runs already. Only the time of the
# directory tells that a drop-in was removed, so what the run itself did to that time is recorded.

OWN_CHANGE = PurePosixPath("/var/lib/nodeupgrade/drop-ins.json")
"""On the node, beside the runs; without it, any change of the directory may be somebody else's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnChange:
    """The last change that a run made to a directory of drop-ins."""

    directory: str
    changed: float  # when the directory was changed by it, as the filesystem has it
    before: float  # when it had been changed before by anybody else; 0 if it did not exist

    def foreign(self, directory: str, changed: float) -> float:
        """Return when somebody else last changed a directory, given when it was changed last."""
        return self.before if (directory, changed) == (self.directory, self.changed) else changed


NO_CHANGE = OwnChange(directory="", changed=0.0, before=0.0)


def differences(planned: UnitStart, now: UnitStart, *, override: str | None = None) -> Iterator[str]:
    """Describe each difference; ``override`` is this run's own drop-in, which replaces the command line."""
    for path in sorted(planned.files.keys() | now.files.keys()):
        if path != override and planned.files.get(path, "") != now.files.get(path, ""):
            yield f"{path} was changed"
    ignored = set() if override is None else {"ExecStart"}
    before, after = ({c for c in start.commands if c.when not in ignored} for start in (planned, now))
    yield from (f"unit {now.unit} has {command} now" for command in sorted(after - before, key=str))
    yield from (f"unit {now.unit} has no {command} any more" for command in sorted(before - after, key=str))


# What a drop-in of a unit sets, besides what has no influence on how the unit's program is started and ended.

HARMLESS = frozenset(
    {
        *("Unit.Description", "Unit.Documentation", "Unit.After", "Unit.Wants"),
        *("Service.CPUAccounting", "Service.MemoryAccounting", "Service.TasksAccounting", "Service.IOAccounting"),
        *("Service.BlockIOAccounting", "Service.IPAccounting", "Service.CPUWeight", "Service.IOWeight"),
        *("Service.LimitNOFILE", "Service.LimitNPROC", "Service.LimitCORE", "Service.LimitMEMLOCK"),
        *("Service.OOMScoreAdjust", "Service.Nice", "Service.TasksMax"),
    }
)
"""Settings that a run may change; others decide what is started, in which environment, or what ends with it."""


def decisive(content: bytes | None) -> tuple[str, ...]:
    """Return the settings that are not HARMLESS, in order, as ``[Section] Key=value``; none without a drop-in."""
    found, section = list[str](), ""
    text = (content or b"").decode(errors="surrogateescape").replace("\\\n", " ")
    for line in map(str.strip, text.splitlines()):
        key, _, value = line.partition("=")
        if line.startswith("["):
            section = line.strip("[]")
        elif line and line[0] not in "#;" and f"{section}.{key.strip()}" not in HARMLESS:
            found.append(f"[{section}] {key.strip()}={' '.join(value.split())}")
    return tuple(found)


# The paths and the drop-in that make up a unit's fence. Shared by the executor and the rescue script.

# Drop-ins apply in the order of their names, and an empty assertion in a later one would cancel ours.
_DROP_IN = "zz-nodeupgrade-fence.conf"
_FLAGS = PurePosixPath("/run/nodeupgrade/fence")


def flag(unit: str) -> PurePosixPath:
    """Return the path of the flag file: the fence is up while it exists."""
    return _FLAGS / unit


def drop_in(unit: str) -> PurePosixPath:
    """Return the path of the drop-in that makes systemd check the flag."""
    return PurePosixPath("/run/systemd/system", f"{unit}.d", _DROP_IN)


def drop_in_text(unit: str) -> str:
    """Return the content of the drop-in."""
    return f"[Unit]\nAssertPathExists=!{flag(unit)}\n"


# The environment files of a unit: which files an EnvironmentFile names, and how systemd reads them.
#
# An EnvironmentFile may be a pattern (glob(7)), for example /etc/kubelet.env.d/*.env.

_WILD = frozenset("*?[\\")


def is_pattern(environment_file: str) -> bool:
    """Report whether the name of an EnvironmentFile may stand for several files."""
    return not _WILD.isdisjoint(environment_file)


def is_undetermined(environment_file: str) -> bool:
    """Report whether it is a pattern whose files are not looked for: of directories, or with more than ``*`` and ``?``.

    Versions of systemd and locales differ in how they read ranges of characters.
    """
    directory, _, name = environment_file.rpartition("/")
    return is_pattern(directory) or not _WILD.isdisjoint(set(name) - set("*?"))


def matching(environment_file: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return which of these paths the name of an EnvironmentFile stands for, in the order in which systemd reads them.

    A wildcard matches neither a slash nor a dot at the beginning of a name.
    """
    if not is_pattern(environment_file):
        return tuple(path for path in paths if path == environment_file)
    directory, _, pattern = environment_file.rpartition("/")
    inside = ((path, path.removeprefix(f"{directory}/")) for path in paths if path.startswith(f"{directory}/"))
    return tuple(
        sorted(
            path
            for path, name in inside
            if "/" not in name and fnmatchcase(name, pattern) and name.startswith(".") <= pattern.startswith(".")
        )
    )


VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""The names of variables that systemd passes on."""
# Versions of systemd differ in escapes within quotes and at the end of a comment: such a file does not match.
_ESCAPE = re.compile(r"\\([\s\S])")
_QUOTED = re.compile(r"""'([^'\\\0]*)'|"((?:[^"\\\0]|\\["\\`$\n])*)\"""")
_BETWEEN = re.compile(r"(?:\s|[#;](?:[^\n\r\\\0]|\\[^\n\r\0])*(?=[\n\r]|\Z))*", re.ASCII)
_ASSIGNMENT = re.compile(
    rf"""
    (?P<name> [^\s\#;\0] [^=\n\r\0]*)
    (?: = (?P<quoted> (?: [ \t]* (?:{_QUOTED.pattern}))*)
        [ \t]* (?P<plain> (?: [ \t]* (?: [^\\\s\0] | \\[^\0]))*) [ \t]*
    )? (?= [\n\r] | \Z)
    """,
    re.ASCII | re.VERBOSE,
)


def assignments(data: bytes) -> dict[str, str] | None:
    """Parse an environment file as systemd does; ``None`` if its versions read the file differently.

    Quotes count only where a value begins, or where another quote has just ended. Inside of a value they are ordinary
    characters, which are resolved only when the command line is expanded.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    found: dict[str, str] = {}
    at = _after(_BETWEEN.match(text), 0)
    while at < len(text):
        line = _ASSIGNMENT.match(text, at)
        if line is None or (line["plain"] or "").startswith(("'", '"')):
            return None
        name = line["name"].rstrip()
        # systemd ignores other names, such as that in "export NAME=value".
        if line["plain"] is not None and VARIABLE.fullmatch(name):
            inside = (each[1] or each[2] or "" for each in _QUOTED.finditer(line["quoted"]))
            found[name] = "".join(map(_unescaped, (*inside, line["plain"])))
        at = _after(_BETWEEN.match(text, line.end()), line.end())
    return found


def _after(found: re.Match[str] | None, at: int) -> int:
    return at if found is None else found.end()


def _unescaped(text: str) -> str:
    """Resolve escapes; one before the end of a line joins it with the next."""
    return _ESCAPE.sub(lambda found: found[1].strip("\r\n"), text)
