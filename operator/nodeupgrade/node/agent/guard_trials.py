"""Trial requests that show whether the readiness guard is in force, and the meaning of the answers.

The guard denies status updates of the node's kubelet. Only a trial update with the kubelet's own credentials proves
that all of it works: the policies, their bindings, the parameters, and an API server that has observed them.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.probe_delay import MARGIN

POD_POLICY = "readiness-guard.nodeupgrade.dev"
NODE_POLICY = "node-guard.nodeupgrade.dev"
TRIED_PODS = 3
"""At most this many pods are tried at a time, in case some are gone or have just become unready."""

_UNREADY = {"type": "Ready", "status": "False"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A patch that the guard has to deny."""

    subject: str  # the object that is patched, for messages
    path: str  # request path of the object's status
    patch: Json
    policy: str  # name of the policy that must deny it

    def judge(self, status: int, text: str) -> "InForce | NotInForce":
        """Return whether the answer is the guard's denial, and if it is not, why."""
        if status < 400:
            return NotInForce(f"the kubelet may report {self.subject} unready")
        if self.policy in text:
            return InForce()
        return NotInForce(f"asked about {self.subject}, the API server answers {status}: {_message(text)}")


@dataclass(frozen=True, slots=True)
class InForce:
    """The guard denied what it has to deny."""


@dataclass(frozen=True, slots=True)
class NotInForce:
    """The guard did not deny it, or that cannot be tried; ``why`` is for people."""

    why: str


def node_trial(node: str) -> Trial:
    """Return a trial that reports the Node unready, as its kubelet."""
    return Trial(
        subject=f"node {node}",
        path=f"/api/v1/nodes/{quote(node)}/status",
        patch={"status": {"conditions": [_UNREADY]}},
        policy=NODE_POLICY,
    )


def pod_trials(pods: Iterable[Json]) -> tuple[Trial, ...]:
    """Return trials that report a pod unready, each with a pod that a new kubelet has to probe again."""
    trials = (_pod_trial(pod) for pod in sorted(pods, key=_name) if _guardable(pod))
    return tuple(trial for trial, _ in zip(trials, range(TRIED_PODS), strict=False))


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _guardable(pod: Json) -> bool:
    view = parse_pod(pod)
    return view.ready and view.whole and not view.leaving and view.exposure > MARGIN


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
