"""Whether the readiness guard is in force: what to try as the node's own kubelet, and what the answers mean.

A kubelet's reports are what the guard denies, so whether one would be denied is the only proof that it is there: the
policies, their bindings, the parameters, and an API server that has heard of all of them.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from urllib.parse import quote

from nodeupgrade.api.json import Json
from nodeupgrade.domain.node.evidence.flaps import PodState, longest_exposure
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.kubelet.probe_delay import MARGIN

POD_POLICY = "readiness-guard.nodeupgrade.dev"
NODE_POLICY = "node-guard.nodeupgrade.dev"
TRIED_PODS = 3
"""Pods that are tried at most at a time, should some be gone or have become unready in this moment."""

_UNREADY = {"type": "Ready", "status": "False"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A patch that the guard has to deny.

    Attributes:
        subject: what is patched, for people.
        path: of the object's status, below the API server.
    """

    subject: str
    path: str
    patch: Json
    policy: str

    def lack(self, status: int, text: str) -> str:
        """What the answer says instead of the guard's denial; empty if it is that."""
        if status < 400:
            return f"the kubelet may report {self.subject} unready"
        if self.policy in text:
            return ""
        return f"asked about {self.subject}, the API server answers {status}: {_said(text)}"


def node_trial(node: str) -> Trial:
    """Report the Node unready, as its kubelet."""
    return Trial(
        subject=f"node {node}",
        path=f"/api/v1/nodes/{quote(node)}/status",
        patch={"status": {"conditions": [_UNREADY]}},
        policy=NODE_POLICY,
    )


def pod_trials(pods: Iterable[Json]) -> tuple[Trial, ...]:
    """Report one of the pods unready that a fresh kubelet has to probe anew: any of these is as good."""
    trials = (_pod_trial(pod) for pod in sorted(pods, key=_name) if _guardable(pod))
    return tuple(trial for trial, _ in zip(trials, range(TRIED_PODS), strict=False))


def exposure_seconds(pods: Iterable[Json]) -> int:
    """How long after its start a fresh kubelet may need to have probed every pod."""
    return ceil(longest_exposure(map(PodState.of, map(parse_pod, pods))).total_seconds())


def _said(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _guardable(pod: Json) -> bool:
    seen = parse_pod(pod)
    return seen.ready and seen.whole and not (seen.terminating or seen.finished) and seen.exposure > MARGIN


def _pod_trial(pod: Json) -> Trial:
    namespace, name = _name(pod)
    return Trial(
        subject=f"pod {namespace}/{name}",
        path=f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/status",
        patch={"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [_UNREADY]}},
        policy=POD_POLICY,
    )


def _name(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
