"""Checks of units: may systemd run other commands, stop other services, or end the machine?

A command besides a unit's program, such as ExecStartPre, may replace the kubelet's program at every start, or move the
runtime's data. Its name does not show what it does, so a short list of forms is known to change nothing that a
run depends on, as are some lines of distributions (`node/checks/vendor_commands.py`); every other command is for a
person to judge. See docs/decisions/units.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from pathlib import PurePosixPath

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet.flags import FALSE
from nodeupgrade.node.checks.facts import OLDEST_SYSTEMD, NodeFacts
from nodeupgrade.node.checks.vendor_commands import is_known
from nodeupgrade.node.host.systemd.units import UnitCommand, UnitStatus
from nodeupgrade.text import number
from nodeupgrade.text import words as split_words

_DIRECTORIES = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin"})
_PLAIN = re.compile(r"[\w./:=,@+\[\]! -]*", re.ASCII)
"""No variables, which may expand to anything, and no quotes, which may contain blanks."""
_PATH = re.compile(r"(?<![\w./:@+-])/[\w./:@+-]+", re.ASCII)
_INTERPRETERS = frozenset({"bash", "dash", "perl", "python", "python3", "sh"})
_READERS = frozenset({"true", "test", "[", "sleep", "echo", "ls", "stat", "cat", "grep", "mountpoint", "findmnt"})
_LISTING = frozenset({"-t", "-n", "-v", "-w", "--numeric", "--verbose", "--wait", "filter", "nat", "mangle", "raw"})
_LIST = frozenset({"-L", "--list", "-S", "--list-rules"})
_OPEN_FORWARDING = ("-P", "FORWARD", "ACCEPT")
_LINKING = frozenset({"-s", "-f", "-n", "-T", "--symbolic", "--force", "--no-dereference", "--no-target-directory"})
_OF_RUNTIMES = frozenset({*(f"{name.replace('-', '')}.sock" for name in SupportedRuntime), "cri-dockerd.sock"})
"""Usual names of sockets at which runtimes listen, and which a link of that name would take away; cri-dockerd's is the
one by which kubelets reach Docker."""


def _loads_modules(words: tuple[str, ...]) -> bool:
    options = {word for word in words if word.startswith("-")}
    return bool(words) and options <= {"-a", "-b", "-q", "-v", "--all", "--quiet", "--verbose"}


def _reads_sysctls(words: tuple[str, ...]) -> bool:
    options = {word for word in words if word.startswith("-")}
    return options <= {"-a", "-n", "-e", "-q"} and not any("=" in word for word in words)


def _lists_rules(words: tuple[str, ...]) -> bool:
    if words[:3] == _OPEN_FORWARDING:
        return set(words[3:]) <= {"-w", "--wait"} or (words[3:4] == ("-w",) and None not in map(number, words[4:]))
    return bool(_LIST & set(words)) and set(words) <= _LIST | _LISTING


def _mounts_nothing(words: tuple[str, ...]) -> bool:
    """Report whether only the propagation of a mount changes, or its version 1 cgroup directory becomes writable."""
    shares = len(words) == 2 and words[0] in {"--make-shared", "--make-rshared"}
    return shares or words in {("-o", "remount,rw", "/sys/fs/cgroup"), ("-oremount,rw", "/sys/fs/cgroup")}


def _links_sockets(words: tuple[str, ...]) -> bool:
    """Report whether a second name is given to a socket: neither the socket nor anything on a disk changes."""
    options = {one for word in words if word.startswith("-") for one in _single(word)}
    paths = [PurePosixPath(word) for word in words if not word.startswith("-")]
    if len(paths) != 2 or not options <= _LINKING or not options & {"-s", "--symbolic"}:
        return False
    return all(map(_is_socket, paths)) and paths[1].name not in _OF_RUNTIMES


def _single(word: str) -> Iterator[str]:
    """Yield the options in a word, one letter each unless it is a long one."""
    yield from (word,) if word.startswith("--") else (f"-{letter}" for letter in word[1:])


def _is_socket(path: PurePosixPath) -> bool:
    ours = any(part.startswith("nodeupgrade") for part in path.parts) or path.is_relative_to("/run/systemd")
    in_memory = any(path.is_relative_to(place) for place in ("/run", "/var/run"))
    return path.suffix == ".sock" and ".." not in path.parts and in_memory and not ours


_FORMS: Mapping[str, Callable[[tuple[str, ...]], bool]] = {
    "mkdir": lambda words: words[:1] in {("-p",), ("--parents",)},
    "ln": _links_sockets,
    "modprobe": _loads_modules,
    "swapoff": lambda words: words == ("-a",),
    "sysctl": _reads_sysctls,
    "mount": _mounts_nothing,
    "systemctl": lambda words: words[:1] in {("is-active",), ("is-enabled",)},
    "udevadm": lambda words: words[:1] == ("settle",),
    "iptables": _lists_rules,
    "ip6tables": _lists_rules,
    "ebtables": _lists_rules,
}


def is_harmless(command: UnitCommand) -> bool:
    """Report whether a command is of a form that is known to change nothing that a run depends on."""
    path = PurePosixPath(command.program)
    if str(path.parent) not in _DIRECTORIES or not _PLAIN.fullmatch(command.line):
        return False
    words = tuple(split_words(command.line)[1:])
    return path.name in _READERS or (path.name in _FORMS and _FORMS[path.name](words))


def paths_in(command: UnitCommand) -> tuple[str, ...]:
    """Return the paths in a command that may be those of programs or scripts that it runs."""
    if command.when == "ExecStart" or is_harmless(command):
        return ()
    return tuple(dict.fromkeys((command.program, *_PATH.findall(command.line))))


def script_of(command: UnitCommand) -> str:
    """Return the script that a command has a shell or the like run; empty if there is none."""
    words = split_words(command.line)[1:] if PurePosixPath(command.program).name in _INTERPRETERS else []
    options = list(takewhile(lambda word: word.startswith("-"), words))
    if any("c" in word for word in options if not word.startswith("--")):  # the next word is what it runs
        return ""
    return next(iter(words[len(options) :]), "")


def unknown_commands(unit: UnitStatus, contents: Mapping[str, str]) -> tuple[UnitCommand, ...]:
    """Return the commands besides the unit's program that may do anything."""
    beside = (command for command in unit.commands if command.when != "ExecStart")
    return tuple(c for c in beside if not is_harmless(c) and not is_known(c, contents))


@check(Reason.UNSUPPORTED_UNIT_COMMAND, Hazard.PROGRAM_WRONG, Hazard.RUNTIME_LOSES_STATE)
def units_start_nothing_else(facts: NodeFacts) -> Iterator[Found]:
    """The units run no other command that might change what a run depends on.

    If it is accepted, programs and scripts that such a command names must still be the same when a unit is started.
    """
    contents = {**facts.kubelet_start.files, **facts.runtime_start.files}
    for unit in facts.units:
        for command in unknown_commands(unit, contents):
            yield (
                f"unit {unit.name} has {command}, which may change the node's programs, "
                f"configuration or containers; remove it from the unit (systemctl cat {unit.name}), for example "
                "into a unit of its own that runs before"
            )


@check(
    Reason.KUBELET_STOP_AFFECTS_OTHERS,
    Hazard.MACHINE_ENDED,
    remedy="remove the setting from the unit, at least for the upgrade",
)
def units_leave_the_machine_up(facts: NodeFacts) -> Iterator[Found]:
    """Systemd does not reboot or stop the node once a unit has been stopped, has failed or was started too often.

    Accept this check if a node on which the new kubelet fails may be rebooted instead of being rolled back.
    """
    for unit in facts.units:
        for setting in unit.ends_machine:
            yield f"unit {unit.name} has {setting}, with which systemd may end every container instead of a rollback"


START_REMEDY = (
    "restore what the message names, or start it (for a unit that would not fail again, `systemctl reset-failed` is "
    "enough), or remove the requirement or condition"
)


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.UNIT_LIMITS_STARTS, acceptable=False, remedy=START_REMEDY)
def units_can_be_started(facts: NodeFacts) -> Iterator[Found]:
    """Systemd knows every unit that kubelet and runtime require, and starts both on demand.

    A runtime that is not restarted does not matter.
    """
    for start in facts.starts:
        yield from start.obstacles.certain


@check(Reason.KUBELET_WOULD_NOT_START, Hazard.UNIT_LIMITS_STARTS, remedy=START_REMEDY)
def units_would_start_again(facts: NodeFacts) -> Iterator[Found]:
    """No unit has failed that a start of kubelet or runtime waits for, and what their conditions ask for is there.

    A runtime that is not restarted does not matter. Only conditions and assertions about paths are tested.
    """
    for start in facts.starts:
        yield from start.obstacles.probable


@check(
    Reason.KUBELET_WOULD_NOT_START,
    Hazard.LOG_FILE_REPLACED,
    remedy="log to the journal, without a lock file, and restart the unit at a time of your choice; or accept this "
    "check if no pod may write where that file is, or read a lock file",
)
def units_log_to_no_file(facts: NodeFacts) -> Iterator[Found]:
    """No file has to be opened for the log of kubelet or runtime when they start: pods that collect logs may write it.

    Neither starts where systemd, or the kubelet itself up to 1.25, cannot open it, as with a directory there. A kubelet
    with a lock file waits for it without end (fcntl(2)), and who may read it may lock it.
    """
    kubelet = facts.kubelet.unit
    units = (kubelet, facts.runtime_unit) if facts.restarts_runtime else (kubelet,)
    found = [(unit.name, setting) for unit in units for setting in unit.log_files]
    if (path := facts.settings.flag("log-file")) and facts.settings.flag("logtostderr") in FALSE:
        found.append((kubelet.name, f"--log-file={path}"))
    for name, setting in found:
        yield f"{name} has {setting}, and would not start if something other than a file lay there"
    if path := facts.settings.flag("lock-file"):
        yield f"{kubelet.name} has --lock-file={path}, and would not start as long as somebody else has it locked"


@check(Reason.KUBELET_STOP_AFFECTS_OTHERS, Hazard.UNITS_BOUND, Hazard.MOUNT_HELPERS_KILLED)
def nothing_else_stops(facts: NodeFacts) -> Iterator[Found]:
    """No service stops with the kubelet, and no daemon that it started, such as one that serves a mount, ends with it.

    Children of the kubelet do not count: it waits for them, and starts them again.
    """
    if facts.around.bound:
        detail = f"{', '.join(facts.around.bound)} would stop together with {facts.kubelet.unit.name}"
        remedy = "remove that dependency (PartOf, BindsTo, Requires or PropagatesStopTo), or stop it first"
        yield Finding(reason=Reason.KUBELET_STOP_AFFECTS_OTHERS, detail=detail, remedy=remedy)
    if facts.around.daemons and facts.around.ends_all:
        detail = (
            f"{named(facts.around.daemons)} runs in the cgroup of {facts.kubelet.unit.name} and would end with it, and "
            "with it what it serves, such as a FUSE mount of a pod"
        )
        remedy = "delete the pods that use it, or set KillMode=process in the unit"
        yield Finding(reason=Reason.KUBELET_STOP_AFFECTS_OTHERS, detail=detail, remedy=remedy)


@check(
    Reason.UNSUPPORTED_SERVICE_MANAGER,
    Hazard.KUBELET_NOT_A_SERVICE,
    acceptable=False,
    remedy="upgrade the operating system",
)
def systemd_is_new_enough(facts: NodeFacts) -> Iterator[Found]:
    """Systemd is of version 219 at least, so that it heeds what keeps anybody from starting the kubelet meanwhile."""
    if facts.around.systemd < OLDEST_SYSTEMD:
        yield f"systemd {facts.around.systemd} runs, which is older than {OLDEST_SYSTEMD}"
