"""When the rescue script takes the executor for dead or hung, and the shield for frozen."""

from math import trunc

from nodeupgrade.node.plan.plan import Limits

LOOK_SECONDS = 3
LOWERS_WITHIN = 12
"""Seconds in which a stopped shield is lowered or ends with an error; otherwise it is frozen."""
ABSENT_SECONDS = 20
"""A killed executor locks its journal again within 10 s, even on a busy machine and if its timer has to start it."""
LASTING_SECONDS = 15
"""After which a kubelet whose health nobody can ask for counts as well: systemd starts one that exits after 10 s."""
DEATHS = 10
"""Times that an executor may be gone without a new record. However short each absence is, such an executor makes no
progress: where memory is short, for example, it is killed whenever it has begun.
"""
SYSTEMCTL_SECONDS = 120


def hung_seconds(limits: Limits) -> int:
    """Return how long a live executor may be silent: its longest undo restarts the runtime and waits for it twice."""
    return trunc(2 * limits.runtime_restart + 2 * SYSTEMCTL_SECONDS)
