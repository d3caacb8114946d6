"""The readiness guard: whether it is available, and the format of its parameters.

The guard consists of two admission policies (``manifests/readiness-guard.yaml``) for the nodes that one ConfigMap
lists. It has up to three keys for a node, each with a time as its value:

- ``<node>``: when the new kubelet runs at the latest; from then on, each pod stays guarded for as long as its probes
  need.
- ``node_<node>``: when the guard of the Node itself ends.
- ``lifted_<node>``: when the latter was removed; the policies do not read it.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.limits import NAME_LENGTH
from nodeupgrade.api.run_settings import VerifySettings
from nodeupgrade.api.values import NodeName
from nodeupgrade.fleet.actions import GuardParameters
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.text import known_time

GUARD_NAME = "nodeupgrade-readiness-guard"
"""Name of the ConfigMap, in the operator's namespace."""

HANDOVER = timedelta(seconds=30)
"""Allowance for the agent to test that the guard is in force and for the executor to stop the kubelet."""

TWO_STATUS_REPORTS = timedelta(seconds=20)
"""Allowance for a kubelet to report the Node status twice."""

STATUS_REPORT = timedelta(seconds=15)
"""Allowance for a kubelet to report the Node status once, after the guard has ended."""

SWEPT_AFTER = timedelta(hours=1)
"""How long after its time an entry of a node that is not in flight is removed."""

_NODE_KEY = "node_"  # unambiguous: node names contain no underscore
LIFTED_KEY = "lifted_"


def obstacle(server: KubeletVersion, parameters: GuardParameters | None) -> str | None:
    """Return why nodes cannot be guarded; None if they can."""
    if not history.ADMISSION_POLICIES.applies_to(server):
        return f"the API server {server} is older than {history.ADMISSION_POLICIES.since}"
    return f"ConfigMap {GUARD_NAME} does not exist or may not be read" if parameters is None else None


def entries(node: NodeName, runs_by: datetime, verify: VerifySettings) -> dict[str, str]:
    """Return the entries that guard a node whose kubelet runs at ``runs_by`` at the latest, in whole seconds.

    The Node's own guard also covers a rollback after the settle period. If the node's name leaves no room for the
    prefix, the Node itself stays unguarded.
    """
    return {node: timestamp(runs_by), **own_entry(node, runs_by, verify)}


def own_entry(node: NodeName, runs_by: datetime, verify: VerifySettings) -> dict[str, str]:
    """Return the entry that guards the Node itself."""
    ends = timestamp(runs_by + verify.settle + verify.kubelet_down_budget + TWO_STATUS_REPORTS)
    return {_NODE_KEY + node: ends} if len(_NODE_KEY + node) <= NAME_LENGTH else {}


def ended(node: NodeName, now: datetime) -> dict[str, str | None]:
    """Return the changes that end a node's guard and record when.

    A node whose name leaves no room for the record has none, and its verdict does not wait.
    """
    return {node: None, _NODE_KEY + node: None, **_record(node, now)}


def node_ended(node: NodeName, now: datetime) -> dict[str, str | None]:
    """Return the changes that end the guard of the Node itself and record when; none if there is no room for that."""
    record = _record(node, now)
    return {_NODE_KEY + node: None, **record} if record else {}


def _record(node: NodeName, now: datetime) -> dict[str, str]:
    return {LIFTED_KEY + node: timestamp(now)} if len(LIFTED_KEY + node) <= NAME_LENGTH else {}


def keys_of(parameters: GuardParameters, node: NodeName) -> tuple[str, ...]:
    """Return the keys that exist for a node."""
    return tuple(key for key in (node, _NODE_KEY + node, LIFTED_KEY + node) if key in parameters.data)


def node_guard_end(parameters: GuardParameters, node: NodeName) -> datetime | None:
    """Return when the guard of the Node itself ends, or None if it has none."""
    return known_time(parameters.data.get(_NODE_KEY + node, ""))


def unused_keys(
    parameters: GuardParameters, slots: Collection[NodeName], opened: Collection[NodeName], now: datetime
) -> tuple[str, ...]:
    """Return the keys that no run needs, such as those of a Node that was deleted during its run.

    Args:
        parameters: The ConfigMap, read before anything else.
        slots: The nodes in flight of all NodeUpgrades.
        opened: The nodes whose tasks are open or cannot be read. Without a slot, such as after its NodeUpgrade was
            abandoned, an entry stays for ``SWEPT_AFTER``.
        now: Wall-clock time, UTC.
    """
    nodes = {key: key.removeprefix(_NODE_KEY).removeprefix(LIFTED_KEY) for key in parameters.data}
    unused = (key for key, node in nodes.items() if node not in slots)
    return tuple(sorted(key for key in unused if nodes[key] not in opened or is_over(parameters.data[key], now)))


def whole_seconds(moment: datetime) -> datetime:
    """Round up to whole seconds, which the API server compares."""
    return moment if not moment.microsecond else moment.replace(microsecond=0) + timedelta(seconds=1)


def is_over(value: str, now: datetime) -> bool:
    """Report whether an entry of the guard is swept: it ended ``SWEPT_AFTER`` ago, or has no valid time."""
    moment = known_time(value)
    return moment is None or now >= moment + SWEPT_AFTER
