"""What a descheduler's policy does to a node that is cordoned: the facts of kubernetes-sigs/descheduler 0.20 to 0.34.

The plugin RemovePodsViolatingNodeTaints evicts every pod that does not tolerate a NoSchedule taint of its node, and a
cordon is one. Cordoned nodes are not left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from nodeupgrade.api.yaml import read_first

PLUGIN = "RemovePodsViolatingNodeTaints"
CORDON = "node.kubernetes.io/unschedulable"
LARGEST = 64 * 1024

_KIND = "DeschedulerPolicy"

Value = Any  # Any: what somebody else wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class Descheduler:
    """A descheduler that evicts the pods of cordoned nodes, or may do so."""

    name: str  # namespace and name of the ConfigMap of its policy; if that is unknown, of its pod
    known: bool  # whether its policy could be read
    believed: bool = True  # whether it shows what not every author of a pod can make it show
    denied: bool = False  # whether whoever asked may not read it


def evicts_from_cordoned(data: object) -> bool | None:
    """Report whether a policy evicts the pods of cordoned nodes; ``None`` if that cannot be read.

    Args:
        data: ``data`` of the ConfigMap that holds the policy.
    """
    found = [_evicts(policy) for policy in _policies(data)] if isinstance(data, Mapping) else []
    if True in found:
        return True
    return None if None in found or not found else False


def _policies(data: Mapping[Value, Value]) -> Iterator[Value]:
    """Yield the policies among the values; for one that cannot be read, ``None``."""
    for text in data.values():
        try:
            policy = read_first(text) if isinstance(text, str) and len(text) <= LARGEST else None
        except (yaml.YAMLError, UnicodeError):
            policy = None
        if policy is None or (isinstance(policy, Mapping) and policy.get("kind") == _KIND):
            yield policy


def _evicts(policy: Value) -> bool | None:
    try:
        return any(_reacts(arguments) for arguments in _arguments(policy))
    except (AttributeError, TypeError):  # not of the shape of a policy
        return None


def _arguments(policy: Value) -> Iterator[Mapping[str, Value]]:
    """Yield the arguments of the plugin wherever it is enabled: as a strategy (v1alpha1) or in profiles (v1alpha2)."""
    strategy = (policy.get("strategies") or {}).get(PLUGIN) or {}
    if strategy.get("enabled"):
        yield strategy.get("params") or {}
    for profile in policy.get("profiles") or ():
        plugins = profile.get("plugins") or {}
        if PLUGIN in ((plugins.get("deschedule") or {}).get("enabled") or ()):
            configured = (each for each in profile.get("pluginConfig") or () if each.get("name") == PLUGIN)
            yield next((each.get("args") or {} for each in configured), {})


def _reacts(arguments: Mapping[str, Value]) -> bool:
    """Report whether the taint of a cordon, which has no value, is among those that count."""
    included = arguments.get("includedTaints") or ()
    return CORDON not in (arguments.get("excludedTaints") or ()) and (not included or CORDON in included)
