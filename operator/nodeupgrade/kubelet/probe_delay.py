"""Computes how long a kubelet may take after its start until it has probed a pod.

A kubelet before 1.35 forgets probe results when it restarts. It starts probing at a random moment within the first
period, counts successes from zero, and runs the readiness probe only after the startup probe has succeeded. Initial
delays count from the start of the container, so they have long passed. The readiness guard's policy
(``manifests/readiness-guard.yaml``) computes the same.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.run_settings import GuardPolicy, VerifySettings
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion, is_sidecar
from nodeupgrade.text import integer

MARGIN = timedelta(seconds=5)
"""Time for the kubelet to sync its pods and write their status; the whole exposure of pods without such probes."""

LONGEST_EXPOSURE = timedelta(minutes=10)
"""Nobody waits any longer for pods whose probes are very infrequent."""

_MOST_SECONDS = 10**10
"""Of an exposure. The API server takes any period and threshold up to 2**31 - 1, for which a timedelta is too short."""

_FORGOTTEN = ("startupProbe", "readinessProbe")


def keeps_probes(kubelet: KubeletVersion) -> bool:
    """Report whether a kubelet keeps its probe results across a restart."""
    return history.PROBES_KEPT.applies_to(kubelet)


def is_guarded(verify: VerifySettings, target: KubeletVersion) -> bool:
    """Report whether a rollout to this version wants its nodes guarded, if that is possible."""
    return verify.readiness_guard is not GuardPolicy.OFF and not keeps_probes(target)


def exposure(pod: Json) -> timedelta:
    """Return how long after a kubelet's start a pod may be reported unready only because it has not been probed yet."""
    spec = pod.get("spec") or {}
    sidecars = [c for c in spec.get("initContainers") or () if is_sidecar(c)]
    seconds = max(map(_until_probed, [*(spec.get("containers") or ()), *sidecars]), default=0)
    return MARGIN + timedelta(seconds=min(seconds, _MOST_SECONDS))


def _until_probed(container: Json) -> int:
    return sum(_longest(container[kind]) for kind in _FORGOTTEN if container.get(kind))


def _longest(probe: Json) -> int:
    """Add up a period until the first attempt, one per required success, and the timeout of the last attempt."""
    return (1 + integer(probe.get("successThreshold") or 1)) * period(probe) + timeout(probe)


def period(probe: Mapping[str, Any]) -> int:
    """Return the seconds between two attempts; the API's default if a manifest leaves it out."""
    return integer(probe.get("periodSeconds") or 10)


def timeout(probe: Mapping[str, Any]) -> int:
    """Return the seconds that one attempt may take; the API's default if a manifest leaves it out."""
    return integer(probe.get("timeoutSeconds") or 1)
