"""Tries whether the readiness guard is in force, by dry runs as the node's kubelet, for as long as it may take to load.

The guard denies status updates of the node's kubelet. Only a trial update with the kubelet's own credentials proves
that all of it works: the policies, their bindings, the parameters, and an API server that has observed them.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

import structlog

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODE_GUARD, READINESS_GUARD, NodeSideKube, UnavailableError
from nodeupgrade.cluster.pods import for_watch, parse_pod
from nodeupgrade.errors import NodeUpgradeError, StepFailed, Transient
from nodeupgrade.kubelet.probe_delay import MARGIN
from nodeupgrade.node.node import Host
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.running_kubelet.kubelet import AsKubelet
from nodeupgrade.text import parse_json

LOOK_SECONDS = 1.0
"""Longest pause between two looks. The first is a fifth of it: an answer usually takes less than half a second."""
TRY_SECONDS = 15.0
"""How long an API server may take to load a raised guard; a second is usual."""
TRIED_PODS = 3
"""At most this many pods are tried at a time, in case some are gone or have just become unready."""

_UNREADY = {"type": "Ready", "status": "False"}
_DENIAL = re.compile(r"\S+ \"[^\"]*\" is forbidden: ValidatingAdmissionPolicy '([^']*)' ", re.ASCII)
"""How a policy's denial begins. Its name alone says nothing: a pod may have it, too, and many answers name the pod."""

log = structlog.get_logger()


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
        message = _message(text)
        denial = _DENIAL.match(message)
        if denial is not None and denial[1] == self.policy:
            return InForce()
        return NotInForce(f"asked about {self.subject}, the API server answers {status}: {message}")


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
        policy=NODE_GUARD,
    )


def pod_trials(pods: Iterable[Json]) -> tuple[Trial, ...]:
    """Return trials that report a pod unready, each with a pod that a new kubelet has to probe again.

    They are of as many namespaces as there are: who may write a pod can have the guard take it for reported already.
    """
    seen = Counter[str]()
    ranked = list[tuple[int, Json]]()
    for pod in sorted(filter(_guardable, pods), key=_name):
        namespace, _ = _name(pod)
        ranked.append((seen[namespace], pod))
        seen[namespace] += 1
    ranked.sort(key=lambda each: each[0])
    return tuple(_pod_trial(pod) for _, pod in ranked[:TRIED_PODS])


async def try_until_in_force(host: Host, kube: NodeSideKube, node: str, plan: RunPlan) -> InForce | NotInForce | None:
    """Try the guard until it is in force or the time is up; ``None`` if the API server does not answer."""
    clock, pauses = host.clock, growing_pauses()
    end = clock.monotonic() + TRY_SECONDS
    if plan.kubeconfig is None:
        return NotInForce("it cannot be tried, because the kubelet has no kubeconfig")
    while True:
        answer: InForce | NotInForce | None
        try:
            pods = await kube.list_pods_on_node(node, for_watch)
            path = PurePosixPath(plan.kubeconfig)
            answer = await asyncio.to_thread(_try, host, node, path, plan.swap.unit, pod_trials(pods))
        except StepFailed as error:
            return NotInForce(f"it cannot be tried as the kubelet: {error}")
        except UnavailableError as error:
            log.info("guard_trial_failed", error=str(error))
            answer = None
        except NodeUpgradeError as error:
            answer = NotInForce(f"it cannot be tried: {error}")
        if isinstance(answer, InForce) or clock.monotonic() >= end:
            return answer
        await asyncio.sleep(next(pauses))


def growing_pauses() -> Iterator[float]:
    """Yield the seconds until the next look, for as long as there is none."""
    pause = LOOK_SECONDS / 5
    while True:
        yield pause
        pause = min(LOOK_SECONDS, 2 * pause)


def _try(host: Host, node: str, kubeconfig: PurePosixPath, unit: str, pods: Sequence[Trial]) -> InForce | NotInForce:
    """Try the guard once, on the Node and on one pod, if any pod can be guarded.

    Raises:
        StepFailed: the kubelet's credentials are not available.
        Transient: systemd does not report the kubelet's process, or that process is gone.
    """
    try:
        pid = host.services.status(unit).main_pid
    except StepFailed as error:  # a busy systemd is no objection to the credentials
        raise Transient(str(error)) from error
    kubelet = host.as_kubelet(kubeconfig, pid)
    of_node = _any_denied(kubelet, [node_trial(node)])
    return of_node if isinstance(of_node, NotInForce) else _any_denied(kubelet, pods)


def _any_denied(kubelet: AsKubelet, trials: Sequence[Trial]) -> InForce | NotInForce:
    """Return whether the guard denies one of these, or there are none; if not, why it does not deny the first."""
    first: NotInForce | None = None
    for trial in trials:
        try:
            response = kubelet.try_patch(trial.path, trial.patch)
        except Transient as error:
            return NotInForce(str(error))
        match trial.judge(response.status, response.text):
            case InForce() as denied:
                return denied
            case NotInForce() as answer:
                first = first or answer
    return first or InForce()


def _message(text: str) -> str:
    try:
        return str(parse_json(text)["message"])
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
        policy=READINESS_GUARD,
    )


def _name(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
