"""The readiness guard's terms: who needs it, who can have it, and what its parameters say.

The guard itself is two policies of the API server (``manifests/readiness-guard.yaml``). They act for the nodes that one
ConfigMap names: under a node's name the moment by which its new kubelet runs, from which on each pod is guarded for as
long as its own probes need; under ``node_`` and its name the moment at which the guard of the Node itself ends. Under
``lifted_`` and its name, which the policies do not read, stands when both were taken away.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.run_settings import GuardPolicy, VerifySettings
from nodeupgrade.api.values import NodeName
from nodeupgrade.kubelet import history, probe_delay
from nodeupgrade.kubelethash import KubeletVersion

GUARD_NAME = "nodeupgrade-readiness-guard"
"""The ConfigMap, in the operator's namespace."""

HANDOVER = timedelta(seconds=30)
"""For the agent to try whether the guard is in force, and for the executor to stop the kubelet."""

NODE_LOOKS = timedelta(seconds=20)
"""For a kubelet to report the Node twice."""

NODE_LOOK = timedelta(seconds=15)
"""For a kubelet to report once what it was not let report before."""

SWEPT_AFTER = timedelta(hours=1)

_NODE_KEY = "node_"  # no node's name has an underscore
_LIFTED_KEY = "lifted_"
_KEY_LIMIT = 253


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardParameters:
    """The ConfigMap as it was read."""

    data: Mapping[str, str]
    resource_version: str


def is_wanted(verify: VerifySettings, target: KubeletVersion) -> bool:
    """Whether a rollout is to guard its nodes if that is possible."""
    return verify.readiness_guard is not GuardPolicy.OFF and not probe_delay.keeps_probes(target)


def has_policies(server: KubeletVersion) -> bool:
    """Whether an API server knows the kind of policy that the guard is."""
    return history.ADMISSION_POLICIES.applies_to(server)


def obstacle(server: KubeletVersion, parameters: GuardParameters | None) -> str | None:
    """Say why nodes cannot be guarded, or return None when they can."""
    if not has_policies(server):
        return f"the API server {server} is older than {history.ADMISSION_POLICIES.since}"
    return f"ConfigMap {GUARD_NAME} is not there or may not be read" if parameters is None else None


def entries(node: NodeName, runs_by: datetime, verify: VerifySettings) -> dict[str, str]:
    """Write what guards a node.

    The Node's own guard covers a rollback after the settle period as well. A name so long that there is no room for
    the prefix leaves the Node itself unguarded.

    Args:
        node: The node.
        runs_by: When its kubelet runs, in whole seconds.
        verify: The terms of its run.
    """
    own = {_NODE_KEY + node: timestamp(runs_by + verify.settle + verify.kubelet_down_budget + NODE_LOOKS)}
    return {node: timestamp(runs_by), **{key: value for key, value in own.items() if len(key) <= _KEY_LIMIT}}


def ended(node: NodeName, now: datetime) -> dict[str, str | None]:
    """Write that a node is guarded no more, and since when; where there is no room for that, it is not judged later."""
    since = {_LIFTED_KEY + node: timestamp(now)} if len(_LIFTED_KEY + node) <= _KEY_LIMIT else {}
    return {node: None, _NODE_KEY + node: None, **since}


def keys_of(parameters: GuardParameters, node: NodeName) -> tuple[str, ...]:
    """Name what guards a node now."""
    return tuple(key for key in (node, _NODE_KEY + node, _LIFTED_KEY + node) if key in parameters.data)


def own_end(parameters: GuardParameters, node: NodeName) -> datetime | None:
    """Say when the guard of the Node itself ends, or None if it has none."""
    return _moment(parameters.data.get(_NODE_KEY + node, ""))


def lifted_at(parameters: GuardParameters, node: NodeName) -> datetime | None:
    """Say when the guard of the Node was lifted, or None if it was not."""
    return _moment(parameters.data.get(_LIFTED_KEY + node, ""))


def stale_keys(parameters: GuardParameters, flying: Iterable[NodeName], now: datetime) -> tuple[str, ...]:
    """Name what is long over, of nodes that are not in flight: somebody was interrupted and never came back."""
    used = {key for node in flying for key in keys_of(parameters, node)}
    return tuple(sorted(key for key, value in parameters.data.items() if key not in used and _is_over(value, now)))


def whole_seconds(moment: datetime) -> datetime:
    """Round up: the API server compares whole seconds."""
    return moment if not moment.microsecond else moment.replace(microsecond=0) + timedelta(seconds=1)


def _is_over(value: str, now: datetime) -> bool:
    moment = _moment(value)
    return moment is None or now >= moment + SWEPT_AFTER


def _moment(value: str) -> datetime | None:
    """Read a moment; what is none, or lacks its time zone, guards nothing."""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return None if moment.tzinfo is None else moment
