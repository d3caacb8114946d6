"""The readiness guard: which rollouts need it, whether it is available, and the format of its parameters.

The guard itself consists of two admission policies (``manifests/readiness-guard.yaml``). They apply to the nodes that
one ConfigMap lists. For a node, it has up to three keys, each with a time as its value:

- ``<node>``: when the new kubelet runs at the latest; each pod stays guarded from then on for as long as its probes
  need.
- ``node_<node>``: when the guard of the Node itself ends.
- ``lifted_<node>``: when both were removed; the policies do not read it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.limits import NAME_LENGTH
from nodeupgrade.api.run_settings import GuardPolicy, VerifySettings
from nodeupgrade.api.values import NodeName
from nodeupgrade.kubelet import history, probe_delay
from nodeupgrade.kubelethash import KubeletVersion

GUARD_NAME = "nodeupgrade-readiness-guard"
"""Name of the ConfigMap, in the operator's namespace."""

HANDOVER = timedelta(seconds=30)
"""Allowance for the agent to test that the guard is in force and for the executor to stop the kubelet."""

NODE_LOOKS = timedelta(seconds=20)
"""Allowance for a kubelet to report the Node status twice."""

NODE_LOOK = timedelta(seconds=15)
"""Allowance for a kubelet to report once what the guard has kept it from reporting."""

SWEPT_AFTER = timedelta(hours=1)
"""How long after its time an entry of a node that is not in flight is removed."""

_NODE_KEY = "node_"  # unambiguous: node names contain no underscore
_LIFTED_KEY = "lifted_"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParameters:
    """The ConfigMap as read from the API."""

    data: Mapping[str, str]
    resource_version: str


def is_wanted(verify: VerifySettings, target: KubeletVersion) -> bool:
    """Report whether a rollout wants its nodes guarded, if possible."""
    return verify.readiness_guard is not GuardPolicy.OFF and not probe_delay.keeps_probes(target)


def has_policies(server: KubeletVersion) -> bool:
    """Report whether the API server supports the admission policies that the guard uses."""
    return history.ADMISSION_POLICIES.applies_to(server)


def obstacle(server: KubeletVersion, parameters: GuardParameters | None) -> str | None:
    """Return why nodes cannot be guarded, or None if they can."""
    if not has_policies(server):
        return f"the API server {server} is older than {history.ADMISSION_POLICIES.since}"
    return f"ConfigMap {GUARD_NAME} is not there or may not be read" if parameters is None else None


def entries(node: NodeName, runs_by: datetime, verify: VerifySettings) -> dict[str, str]:
    """Return the entries that guard a node.

    The Node's own guard also covers a rollback after the settle period. If the node's name leaves no room for the
    prefix, the Node itself stays unguarded.

    Args:
        node: The node.
        runs_by: When its kubelet runs at the latest, in whole seconds.
        verify: The verification settings of its run.
    """
    own = {_NODE_KEY + node: timestamp(runs_by + verify.settle + verify.kubelet_down_budget + NODE_LOOKS)}
    return {node: timestamp(runs_by), **{key: value for key, value in own.items() if len(key) <= NAME_LENGTH}}


def ended(node: NodeName, now: datetime) -> dict[str, str | None]:
    """Return the changes that end a node's guard and record when.

    If the node's name leaves no room for the record, it is omitted, and the verdict does not wait.
    """
    since = {_LIFTED_KEY + node: timestamp(now)} if len(_LIFTED_KEY + node) <= NAME_LENGTH else {}
    return {node: None, _NODE_KEY + node: None, **since}


def keys_of(parameters: GuardParameters, node: NodeName) -> tuple[str, ...]:
    """Return the keys that exist for a node."""
    return tuple(key for key in (node, _NODE_KEY + node, _LIFTED_KEY + node) if key in parameters.data)


def own_end(parameters: GuardParameters, node: NodeName) -> datetime | None:
    """Return when the guard of the Node itself ends, or None if it has none."""
    return _moment(parameters.data.get(_NODE_KEY + node, ""))


def lifted_at(parameters: GuardParameters, node: NodeName) -> datetime | None:
    """Return when the guard of the Node was lifted, or None if it was not."""
    return _moment(parameters.data.get(_LIFTED_KEY + node, ""))


def stale_keys(parameters: GuardParameters, flying: Iterable[NodeName], now: datetime) -> tuple[str, ...]:
    """Return the outdated keys of nodes that are not in flight, left by an operator that was interrupted."""
    used = {key for node in flying for key in keys_of(parameters, node)}
    return tuple(sorted(key for key, value in parameters.data.items() if key not in used and _is_over(value, now)))


def left_over(
    parameters: GuardParameters, slots: Collection[NodeName], opened: Collection[NodeName], now: datetime
) -> tuple[str, ...]:
    """Return the keys that no run needs any more, such as those of a Node that was deleted during its run.

    Args:
        parameters: The ConfigMap, read before anything else.
        slots: The nodes in flight of all NodeUpgrades.
        opened: The nodes whose tasks are open, or cannot be read. Without a slot, such as after its NodeUpgrade was
            abandoned, an entry stays until it is long over.
        now: Wall-clock time, UTC.
    """
    nodes = {key: key.removeprefix(_NODE_KEY).removeprefix(_LIFTED_KEY) for key in parameters.data}
    unused = (key for key, node in nodes.items() if node not in slots)
    return tuple(sorted(key for key in unused if nodes[key] not in opened or _is_over(parameters.data[key], now)))


def whole_seconds(moment: datetime) -> datetime:
    """Round up to whole seconds, which is what the API server compares."""
    return moment if not moment.microsecond else moment.replace(microsecond=0) + timedelta(seconds=1)


def _is_over(value: str, now: datetime) -> bool:
    moment = _moment(value)
    return moment is None or now >= moment + SWEPT_AFTER


def _moment(value: str) -> datetime | None:
    """Parse a time; return None if it is malformed or has no time zone, since such an entry guards nothing."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment
