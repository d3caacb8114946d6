"""Read the log of a kubelet or a runtime, for messages and as evidence. A log that cannot be read counts as empty."""

import re

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.shield.shield import RefusedCall
from nodeupgrade.text import trimmed

CAUSE = re.compile(
    r"failed (liveness|startup) probe|probeType=.?(Liveness|Startup)|definition changed|resource definition|"
    r"[Ee]vict|[Pp]reempt|rejected|Failed to admit|[Aa]dmission denied|DeadlineExceeded|active on the node longer"
)
"""Log lines of a kubelet that ends a container for a reason other than a deleted pod."""
ERROR = re.compile(
    r'[EF][0-9]{4} [^]]*\] (?:.*\berr="(?P<err>(?:[^"\\]|\\.)*)"|(?P<text>.*))|[{].*"err":"(?P<json>(?:[^"\\]|\\.)*)"',
    re.ASCII,
)
"""An error of a kubelet, in klog's text or its JSON."""
EVICTS = "eviction manager: must evict pod(s)"
QUOTED = 320
"""Characters of a line in a message."""


def read_log(node: Node, unit: str) -> tuple[str, ...]:
    """Return the lines of a unit's present process."""
    try:
        return node.services.log(unit)
    except StepFailed:
        return ()


def cause(log: tuple[str, ...], call: RefusedCall) -> str:
    """Return the kubelet's line that gives the cause of a call, or else its last line about the instance.

    To be appended to a message; empty if there is neither. Lines that name only the pod count too.
    """
    namespace, _, rest = call.label.partition("/")
    pod = f"{namespace}/{rest.partition('/')[0]}"
    about = [line for line in log if (call.instance and call.instance in line) or pod in line]
    line = trimmed(next((line for line in reversed(about) if CAUSE.search(line)), ""))
    return f"; the kubelet wrote: {line[:QUOTED]}" if line else quoted(log, call.instance)


def evicts(log: tuple[str, ...]) -> bool:
    """Report whether a kubelet evicts pods because the node lacks something (all versions; since 1.4)."""
    return any(EVICTS in line.lower() for line in log)


def last_errors(log: tuple[str, ...]) -> str:
    """Return the last two errors that a kubelet logged, to be appended to a message; empty if there is none.

    The last one often says only that it ends; the one before it says why.
    """
    errors = [match[match.lastgroup or 0][:QUOTED] for line in log if (match := ERROR.match(line))]
    return f"; the kubelet wrote: {'; '.join(errors[-2:])}" if errors else ""


def quoted(log: tuple[str, ...], instance: str) -> str:
    """Return the kubelet's last line about an instance, to be appended to a message; empty if there is none."""
    line = trimmed(next((line for line in reversed(log) if instance in line), ""))
    return f"; the kubelet wrote: {line[:QUOTED]}" if line and instance else ""
