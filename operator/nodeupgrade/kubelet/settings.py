"""A kubelet's settings: its configuration file, drop-ins merged in order, and flags, which override both."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import Any

import yaml

from nodeupgrade.api.yaml import read_first
from nodeupgrade.kubelet.defaults import EVICTION
from nodeupgrade.kubelet.flags import parsed
from nodeupgrade.kubelethash import resource_amount
from nodeupgrade.text import number, trimmed

_EVICTION = "evictionHard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A kubelet's configuration: that of a running kubelet, or that of its next start."""

    words: tuple[str, ...] = ()  # the command line, without the program
    document: Mapping[str, Any] = field(default_factory=dict)  # the merged configuration files; empty if there are none
    # the thresholds for evictions where drop-ins were merged into the defaults; None if they replace all defaults
    evictions: Mapping[str, str] | None = None

    def flag(self, name: str) -> str | None:
        """Return the value of the last flag of this name, which is the one that counts; ``None`` if there is none."""
        given = self.flags(name)
        return given[-1] if given else None

    def flags(self, name: str) -> list[str]:
        """Return the values of all flags of this name."""
        return [flag.value for flag in parsed(self.words) if flag.name == name]

    def given(self) -> frozenset[str]:
        """Return the names of all flags."""
        return frozenset(flag.name for flag in parsed(self.words) if flag.name)

    def text(self, flag: str, key: str, default: str = "") -> str:
        """Return a setting as text; empty and null count as not set."""
        given = self.flag(flag)
        value = self.document.get(key) if given is None else given
        return default if value is None or value == "" else str(value)

    def hostname(self, host: str) -> str:
        """Return the name that the kubelet goes by on a host with this name; empty if it is not known."""
        return trimmed(self.flag("hostname-override") or host).lower()

    @property
    def pins_cpus(self) -> bool:
        """Whether containers may have CPUs of their own."""
        return self.text("cpu-manager-policy", "cpuManagerPolicy").lower() == "static"

    @property
    def pins_memory(self) -> bool:
        """Whether containers may have memory of their own."""
        return self.text("memory-manager-policy", "memoryManagerPolicy").lower() == "static"

    @property
    def cpu_options(self) -> dict[str, bool]:
        """The options of the CPU manager's policy that are set; none if a kubelet would not accept them."""
        try:
            options = self.amounts("cpu-manager-policy-options", "cpuManagerPolicyOptions") or {}
        except ValueError:
            return {}
        return {name: value.lower() == "true" for name, value in options.items()}

    def number(self, flag: str, key: str, default: int) -> int:
        """Return a setting as an integer; as for a kubelet, 0 counts as not set.

        Raises:
            ValueError: it is not an integer.
        """
        text = self.text(flag, key, "0")
        if (found := number(text.removeprefix("-"))) is None:
            raise ValueError(f"the kubelet's {key} is not a number: {text}")
        return (-found if text.startswith("-") else found) or default

    def amounts(self, flag: str, key: str, separator: str = "=") -> dict[str, str] | None:
        """Return a setting that maps names to amounts, such as ``cpu=1,memory=1Gi``; ``None`` if it is not set.

        Raises:
            ValueError: it is not such a map.
        """
        given = self.flags(flag)
        if given:
            pairs = [pair for text in given for pair in map(trimmed, text.split(",")) if pair]
            if not all(separator in pair for pair in pairs):
                raise ValueError(f"the kubelet's --{flag} is not a list of quantities: {','.join(given)}")
            return {trimmed(name): trimmed(value) for name, _, value in (pair.partition(separator) for pair in pairs)}
        value = self.document.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise ValueError(f"the kubelet's {key} is not a map: {value!r}")  # noqa: TRY004 - it is content, not a type
        return {str(name): str(amount) for name, amount in value.items()}

    def names(self, flag: str, key: str) -> tuple[str, ...]:
        """Return a setting that is a list of names."""
        given = self.flags(flag)
        if given:
            return tuple(name for text in given for name in map(trimmed, text.split(",")) if name)
        value = self.document.get(key)
        return tuple(str(name) for name in value) if isinstance(value, list) else ()

    def eviction_hard(self, without: Collection[str] = ()) -> Mapping[str, str]:
        """Return the thresholds by signal below which the kubelet evicts pods; signals ``without`` have no default.

        Raises:
            ValueError: the setting cannot be parsed.
        """
        default = {signal: amount for signal, amount in EVICTION.items() if signal not in without}
        given = self.amounts("eviction-hard", _EVICTION, "<")
        if given is None:
            given = default
        elif self.evictions is not None and not self.flags("eviction-hard"):
            given = {signal: it for signal, it in self.evictions.items() if signal in given or signal not in without}
        if self.document.get("mergeDefaultEvictionSettings") is True:
            given = {**default, **given}
        return {signal: amount for signal, amount in given.items() if not _is_ignored(amount)}


def _is_ignored(amount: str) -> bool:
    """Report whether a kubelet ignores a threshold: 0 % and 100 % (pkg/kubelet/eviction/helpers.go)."""
    try:
        return amount.endswith("%") and threshold(amount, 100) in {0, 100}
    except ValueError:
        return False


def threshold(text: str, size: int) -> Fraction:
    """Parse a threshold, either an amount or a percentage of ``size``.

    Raises:
        ValueError: it is neither.
    """
    if not text.endswith("%"):
        return resource_amount(text)
    try:
        return size * Fraction(text.removesuffix("%")) / 100
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"{text} is not a percentage") from error


MOST_CPUS = 8192
"""The most that Linux supports."""


def cpus_in(listed: object) -> frozenset[int]:
    """Parse a list of CPUs such as ``0-3,8``.

    Raises:
        ValueError: it is not such a list.
    """
    found = set[int]()
    for part in [] if listed is None or listed == "" else trimmed(str(listed)).split(","):
        first, dash, last = trimmed(part).partition("-")
        begin, end = number(first), number(last if dash else first)
        if begin is None or end is None or end > MOST_CPUS:
            raise ValueError(f"{str(listed)[:80]} is not a list of CPUs")
        found.update(range(begin, end + 1))
    return frozenset(found)


def configured(words: tuple[str, ...], *configs: bytes) -> Configured:
    """Read a kubelet's settings from its arguments, and from its configuration file and the drop-ins in order.

    Raises:
        ValueError: a configuration file is not a YAML map.
    """
    documents = [_parse(config) for config in configs]
    document = reduce(_merged, documents, dict[str, Any]())
    return Configured(words=words, document=document, evictions=_evictions(documents))


def _evictions(documents: Sequence[Mapping[str, Any]]) -> Mapping[str, str] | None:
    """Merge thresholds as kubelets do, which apply the defaults before the drop-ins; ``None`` if there are none."""
    if len(documents) < 2 or documents[0].get(_EVICTION) is not None:
        return None
    merged = reduce(_merged, documents[1:], {_EVICTION: dict(EVICTION)}).get(_EVICTION)
    return {name: str(amount) for name, amount in merged.items()} if isinstance(merged, Mapping) else None


def _merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Merge maps and replace lists and scalars; null removes (RFC 7396, as kubelets do it)."""
    merged = dict(base)
    for key, value in patch.items():
        if isinstance(value, Mapping):
            before = merged.get(key)
            merged[key] = _merged(before if isinstance(before, Mapping) else {}, value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _parse(config: bytes) -> Mapping[str, Any]:
    try:
        document = read_first(config)
    except (yaml.YAMLError, UnicodeError) as error:
        raise ValueError(f"the kubelet's configuration file is not YAML: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ValueError("the kubelet's configuration file is not a map")  # noqa: TRY004 - it is content, not a type
    return {str(key): value for key, value in document.items()}
