"""Read the log of a kubelet or a runtime, for messages and as evidence. A log that cannot be read counts as empty.

Pods write into a kubelet's log too, for instance by what their probes print. So a line counts only if it begins as
klog's do, in text or JSON. Some can still be made to write one: before 1.21 by a probe's output, up to 1.30 by a
value in the environment of a container that does not start, and later where the journal cuts a line of 48 KB.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.shield.shield import RefusedCall
from nodeupgrade.text import parse_json, trimmed

CAUSE = re.compile(
    r"failed (liveness|startup) probe|probeType=.?(Liveness|Startup)|definition changed|resource definition|"
    r"[Ee]vict|[Pp]reempt|rejected|Failed to admit|[Aa]dmission denied|DeadlineExceeded|active on the node longer"
)
"""Log lines of a kubelet that ends a container for a reason other than a deleted pod."""
HEADER = re.compile(r"([IWEF])\d{4} [\d:.]+ +\d+ ([^\s:\]]+):\d+\] (.*)", re.ASCII)
"""The beginning of a line in klog's text: severity, time, process, source file and line."""
ERROR = re.compile(r'.*\berr="((?:[^"\\]|\\.)*)"', re.ASCII)
EVICTS = "eviction manager: must evict pod(s)"
EVICTION_SOURCE = "eviction_manager.go"
QUOTED = 320
"""Characters of a line in a message."""
SPEC = re.compile(r'&?(?:Container|EnvVar|Pod|PodSpec)\{|podActions"?[:=]\{')
"""How a spec begins that a kubelet writes with the values of its environment: from 1.19 to 1.33, that of each container
that does not start; a verbose one, up to 1.29, that of the init container that comes next, as JSON.
"""
AFTER_SPEC = "} start failed in pod "


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that a kubelet wrote."""

    line: str
    source: str  # name of the source file
    message: str
    error: str | None = None  # what went wrong, if the entry is about an error


def read_log(node: Node, unit: str, *, since: AwakeTime | None = None) -> tuple[str, ...]:
    """Return the lines of a unit's present process; of a very long log only the newest, back to ``since`` at least."""
    try:
        return node.services.log(unit, since=since)
    except StepFailed:
        return ()


def cause(log: tuple[str, ...], call: RefusedCall) -> str:
    """Return the kubelet's line that gives the cause of a call, or else its last line about the instance.

    To be appended to a message; empty if there is neither. Lines that name only the pod count too.
    """
    namespace, _, rest = call.label.partition("/")
    pod = f"{namespace}/{rest.partition('/')[0]}"
    about = [e.line for e in _entries(log) if (call.instance and call.instance in e.line) or pod in e.line]
    line = trimmed(next((line for line in reversed(about) if CAUSE.search(line)), ""))
    return f"; the kubelet wrote: {_told(line)}" if line else quoted(log, call.instance)


def evicts(log: tuple[str, ...]) -> bool:
    """Report whether a kubelet evicts pods because the node lacks something (all versions; since 1.4)."""
    return any(
        entry.source == EVICTION_SOURCE and entry.message.lower().lstrip('"').startswith(EVICTS)
        for entry in _entries(log)
    )


def is_deaf(log: tuple[str, ...]) -> bool:
    """Report whether another process has taken the port of a kubelet's health endpoint, which runs on without."""
    return any(
        entry.source == "server.go" and "health" in entry.message and "address already in use" in entry.line
        for entry in _entries(log)
    )


def last_errors(log: tuple[str, ...]) -> str:
    """Return the last two errors that a kubelet logged, to be appended to a message; empty if there is none.

    The last one often says only that it ends; the one before it says why.
    """
    errors = [_told(entry.error) for entry in _entries(log) if entry.error is not None]
    return f"; the kubelet wrote: {'; '.join(errors[-2:])}" if errors else ""


def quoted(log: tuple[str, ...], instance: str) -> str:
    """Return the kubelet's last line about an instance, to be appended to a message; empty if there is none."""
    line = trimmed(next((entry.line for entry in reversed([*_entries(log)]) if instance in entry.line), ""))
    return f"; the kubelet wrote: {_told(line)}" if line and instance else ""


def _told(line: str) -> str:
    """Return what may be told of a line: no spec of a container, nor what the journal has cut of one."""
    if (begun := SPEC.search(line)) is not None:
        _, ended, rest = line[begun.end() :].rpartition(AFTER_SPEC)
        line = f"{line[: begun.start()]}…{ended.removeprefix('}')}{rest if ended else ''}"
    return line[:QUOTED]


def _entries(log: tuple[str, ...]) -> Iterator[Entry]:
    """Yield the lines that a kubelet wrote; the others are continuations of a message, or what a pod wrote."""
    for line in log:
        if (match := HEADER.fullmatch(line)) is not None:
            severity, source, message = match.groups()
            found = ERROR.match(message)
            error = (found[1] if found else message) if severity in "EF" else None
            yield Entry(line, source, message, error)
        elif line.startswith("{") and (entry := _json_entry(line)) is not None:
            yield entry


def _json_entry(line: str) -> Entry | None:
    try:
        document = parse_json(line)
    except ValueError:
        return None
    match document:
        case {"caller": str(caller), "msg": str(message)}:
            error = document.get("err")
            source = caller.rpartition("/")[2].partition(":")[0]
            return Entry(line, source, message, error if isinstance(error, str) else None)
        case _:
            return None
