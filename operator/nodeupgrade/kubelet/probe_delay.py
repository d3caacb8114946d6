"""How long a kubelet that has just started may need until it has probed a pod.

A kubelet before 1.35 forgets what probes have found. It begins again at a random moment within the first period, counts
successes anew, and asks the readiness probe only once the startup probe has succeeded. Delays count from the start of
the container, hence are long over. The readiness guard's policy (``manifests/readiness-guard.yaml``) computes the same.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import KubeletVersion, is_sidecar

MARGIN = timedelta(seconds=5)
"""For the kubelet to look at its pods and to write what it found; all that pods without such probes are exposed for."""

_FORGOTTEN = ("startupProbe", "readinessProbe")


def keeps_probes(kubelet: KubeletVersion) -> bool:
    """Whether a kubelet that starts still knows what its probes had found."""
    return history.PROBES_KEPT.applies_to(kubelet)


def exposure(pod: Json) -> timedelta:
    """Say how long after the start of a kubelet a pod may be reported unready only because it was not probed yet.

    Args:
        pod: A Pod as the API server returns it.
    """
    spec = pod.get("spec") or {}
    sidecars = [c for c in spec.get("initContainers") or () if is_sidecar(c)]
    return MARGIN + max(map(_until_probed, [*(spec.get("containers") or ()), *sidecars]), default=timedelta())


def _until_probed(container: Json) -> timedelta:
    return sum((_longest(container[kind]) for kind in _FORGOTTEN if container.get(kind)), timedelta())


def _longest(probe: Json) -> timedelta:
    """A period until the first attempt, one for each success that is asked for, and the last attempt's time."""
    return timedelta(seconds=(1 + (probe.get("successThreshold") or 1)) * period(probe) + timeout(probe))


def period(probe: Mapping[str, Any]) -> int:
    """Seconds between two attempts, the API's default where a manifest leaves it out."""
    return int(probe.get("periodSeconds") or 10)


def timeout(probe: Mapping[str, Any]) -> int:
    """Seconds for one attempt, likewise."""
    return int(probe.get("timeoutSeconds") or 1)
