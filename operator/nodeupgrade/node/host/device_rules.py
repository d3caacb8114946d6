"""Which devices a container may use: as the kernel enforces it, as its runtime was told, and as systemd knows it.

Where systemd manages cgroups, each ``daemon-reload`` sets the list of every scope again to what systemd knows (seen
with systemd 252). A device that something else has added, as the legacy hook of NVIDIA's container toolkit does, is
gone then, while the container runs on (opencontainers/runc#4568). So is one that runc 1.1.3 to 1.1.6 did not tell
systemd of, because there was no link to it in /dev/char (runc#3671, runc#3708).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nodeupgrade.text import lines, number, parse_json, words

EVERYTHING = "a"
ACCESS = frozenset("rwm")
_RULE = re.compile(r"([abc]) (\*|[0-9]{1,10}):(\*|[0-9]{1,10}) ([rwm]{1,3})")
_NUMBERED = re.compile(r"/dev/(char|block)/([0-9]{1,10}):([0-9]{1,10})")
_KIND = {"char": "c", "block": "b"}
_NUMBERED_SINCE = 240
"""The version from which on systemd reads ``/dev/char/195:0`` without that file, and ``char-195``."""
_LARGEST_NUMBER = 2**32 - 1
_STRICT, _AUTO = "strict", "auto"


@dataclass(frozen=True, slots=True)
class DeviceRule:
    """Devices that may be used, and how."""

    kind: str  # "c", "b", or "a" for all devices
    major: int | None = None  # None: any
    minor: int | None = None
    access: frozenset[str] = ACCESS  # of "r", "w" and "m", which is to make a file for it

    def __str__(self) -> str:
        """Return it as the kernel writes it: ``c 195:* rw``."""
        numbers = ":".join("*" if each is None else str(each) for each in (self.major, self.minor))
        return f"{self.kind} {numbers} {''.join(each for each in 'rwm' if each in self.access)}"

    def covers(self, other: "DeviceRule") -> bool:
        """Report whether this rule is about all devices of the other one, whatever the access."""
        return (
            self.kind in {EVERYTHING, other.kind}
            and self.major in {None, other.major}
            and self.minor in {None, other.minor}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitDevices:
    """What systemd knows of the devices of a unit."""

    policy: str  # DevicePolicy
    allowed: tuple[str, ...] = ()  # DeviceAllow, such as ``/dev/char/195:0 rw`` or ``char-pts rwm``
    group: str = ""  # its cgroup, relative to the root of a hierarchy; empty if it has none

    @property
    def limited(self) -> bool:
        """Whether systemd keeps a list of them at all."""
        return self.policy != _AUTO or bool(self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceNames:
    """What the names in DeviceAllow mean on a node."""

    systemd: int  # its version
    majors: str = ""  # the content of /proc/devices
    present: frozenset[str] = frozenset()  # paths of DeviceAllow that exist


def rules_of(listed: str) -> tuple[DeviceRule, ...]:
    """Read a ``devices.list`` of the kernel.

    Raises:
        ValueError: a line is not understood.
    """
    return tuple(_rule(line) for line in lines(listed) if line)


def _rule(line: str) -> DeviceRule:
    if (found := _RULE.fullmatch(line)) is None:
        raise ValueError(f"cannot read the device rule {line[:80]!r}")
    kind, major, minor, access = found.groups()
    return DeviceRule(kind, number(major), number(minor), frozenset(access))


def rules_of_spec(written: bytes) -> tuple[DeviceRule, ...]:
    """Return what an OCI specification (``config.json``) allows, rule after rule; all devices as two rules.

    Raises:
        ValueError: it is not understood.
    """
    found = parse_json(written)
    for name in ("linux", "resources", "devices"):
        found = _member(found, name)
    allowed: list[DeviceRule] = []
    for place, each in enumerate(_listed_in(found)):
        allows, rules = _member(each, "allow") or False, _specified(each, place)
        if allows is True:
            allowed += rules
        elif allows is False:
            for rule in rules:
                allowed = [left for old in allowed if (left := _without(rule, old)).access]
        else:
            raise ValueError(f"device rule {place} neither allows nor denies")
    return tuple(dict.fromkeys(allowed))


def _member(found: object, name: str) -> object:
    """Return a member of an object; ``None`` if one of the two is missing."""
    if found is None or isinstance(found, dict):
        return None if found is None else found.get(name)
    raise ValueError(f"what should have {name} is no object")


def _listed_in(found: object) -> list[object]:
    if found is None or isinstance(found, list):
        return found or []
    raise ValueError("the rules for devices are no list")


def _without(denied: DeviceRule, rule: DeviceRule) -> DeviceRule:
    """Return what is left of a rule; all of it if only a part of its devices is denied."""
    return replace(rule, access=rule.access - denied.access) if denied.covers(rule) else rule


_KINDS = {"": "cb", EVERYTHING: "cb", "c": "c", "u": "c", "b": "b", "p": ""}
"""What runtimes take a type for; pipes are not limited."""


def _specified(rule: object, place: int) -> Iterator[DeviceRule]:
    match _member(rule, "type") or "", _member(rule, "access") or "rwm":
        case str(kind), str(access) if kind in _KINDS and ACCESS.issuperset(access):
            major, minor = (_number(_member(rule, name), place) for name in ("major", "minor"))
        case _:
            raise ValueError(f"device rule {place} has an unknown type or access")
    if _KINDS[kind] == "cb":
        major, minor, access = None, None, "rwm"
    for each in _KINDS[kind]:
        yield DeviceRule(each, major, minor, frozenset(access))


def _number(given: object, place: int) -> int | None:
    """Return a major or minor number; ``None`` for any, as for a negative one."""
    match given:
        case None:
            return None
        case int() if not isinstance(given, bool) and given <= _LARGEST_NUMBER:
            return given if given >= 0 else None
    raise ValueError(f"device rule {place} has a number that no device has")


def lost_by_reload(granted: tuple[DeviceRule, ...], unit: UnitDevices, names: DeviceNames) -> tuple[DeviceRule, ...]:
    """Return what the kernel grants, and would not after systemd has set the list that it knows."""
    if not unit.limited:
        return ()
    listed = [rule for each in unit.allowed for rule in _listed(each, names)]
    if unit.policy != _STRICT:
        listed += _PSEUDO
    return tuple(rule for rule in granted if _left(rule, listed))


_PSEUDO = (
    *(DeviceRule("c", 1, minor) for minor in (3, 5, 7, 8, 9)),
    *(DeviceRule("c", 5, minor) for minor in (0, 2)),
    DeviceRule("c", 136),
)
"""What every unit may use whose policy is not strict: null, zero, full, random, urandom, tty, ptmx and terminals."""


_COMMON = (
    *_PSEUDO,
    DeviceRule("c", 10, 200),
    DeviceRule("c", access=frozenset("m")),
    DeviceRule("b", access=frozenset("m")),
)


def is_common(rule: DeviceRule) -> bool:
    """Report whether runc grants this to every container, or it is everything, as for privileged ones."""
    return rule.kind == EVERYTHING or rule in _COMMON


def _left(rule: DeviceRule, listed: list[DeviceRule]) -> bool:
    """Report whether some access that a rule grants is in none of the others."""
    return bool(rule.access.difference(*(each.access for each in listed if each.covers(rule))))


def _listed(allowed: str, names: DeviceNames) -> Iterator[DeviceRule]:
    """Yield what systemd makes of an entry of DeviceAllow; nothing for one that it cannot resolve."""
    name, _, given = allowed.rpartition(" ")
    access = frozenset(given) & ACCESS
    if numbered := _NUMBERED.fullmatch(name):
        if names.systemd >= _NUMBERED_SINCE or name in names.present:
            yield DeviceRule(_KIND[numbered[1]], number(numbered[2]), number(numbered[3]), access)
        return
    kind, _, group = name.partition("-")
    if kind in _KIND:
        majors = (None,) if group == "*" else _majors(names, kind, group)
        yield from (DeviceRule(_KIND[kind], major, None, access) for major in majors)


_HEADS = {"Character devices:": "char", "Block devices:": "block"}


def _majors(names: DeviceNames, kind: str, group: str) -> Iterator[int]:
    """Yield the major numbers of a group of devices, which is a number itself, or named in /proc/devices."""
    if names.systemd >= _NUMBERED_SINCE and (given := number(group)) is not None:
        yield given
        return
    section = ""
    for line in lines(names.majors):
        section = _HEADS.get(line, section)
        match words(line):
            case [shown, name] if section == kind and name == group and (major := number(shown)) is not None:
                yield major
