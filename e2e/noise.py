"""Pods that do not keep still while the kubelet is swapped.

Each must end in one of two ways: upgraded with nothing restarted that did not restart by itself, or refused (or rolled
back) with a sentence that says why.
"""

import threading
import time
from collections.abc import Iterator

from e2e.lab.process import wait_until
from e2e.mishaps import EITHER, UP, Fault, Harm
from e2e.ordeal import Ordeal

NAMESPACE = "workload"
IMAGE = "nodeupgrade.test/busybox:1"
STAY = "trap 'exit 0' TERM; while :; do sleep 1; done"
ANY = EITHER | {"Refused"}
Object = dict[str, object]


def _container(name: str, script: str, **more: object) -> Object:
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script], **more}


def _pod(ordeal: Ordeal, name: str, *containers: Object, **spec: object) -> Object:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "nodeName": ordeal.cluster.node.name, "terminationGracePeriodSeconds": 1, "containers": list(containers),
            **spec,
        },
    }  # fmt: skip


def noisy(name: str, *containers: Object, spec: Object | None = None, wait: float = 8, free: bool = True) -> Harm:
    """Have a pod of this kind on the node, for some seconds before the upgrade and until it is over."""

    def harm(ordeal: Ordeal) -> Iterator[None]:
        if free:
            ordeal.free.add(f"{NAMESPACE}/{name}")
        ordeal.uncompared.add("init-container")
        ordeal.cluster.lab.apply(_pod(ordeal, name, *containers, **(spec or {})))
        time.sleep(wait)
        yield
        yield
        ordeal.notes.append(_said(ordeal, name))
        _delete(ordeal, name)

    return harm


def _said(ordeal: Ordeal, name: str) -> str:
    found = ordeal.cluster.lab.kubectl("get", "pod", "-n", NAMESPACE, name, "--no-headers", check=False).stdout.split()
    return " ".join(found[:4])


def _delete(ordeal: Ordeal, *names: str) -> None:
    delete = ("delete", "pod", "-n", NAMESPACE, *names, "--ignore-not-found", "--grace-period=0", "--force")
    ordeal.cluster.lab.kubectl(*delete, timeout=120)


def job(ordeal: Ordeal) -> Iterator[None]:
    """Let a Job's pod complete in the middle of the run."""
    yield from noisy("job", _container("job", "sleep 14"), wait=1, spec=_NEVER)(ordeal)


def terminating(ordeal: Ordeal) -> Iterator[None]:
    """Have a pod that is being deleted, whose container takes 40 s to end."""
    slow = _container("slow", STAY, lifecycle={"preStop": {"exec": {"command": ["sleep", "40"]}}})
    ordeal.free.add(f"{NAMESPACE}/slow-end")
    ordeal.cluster.lab.apply(_pod(ordeal, "slow-end", slow, terminationGracePeriodSeconds=45))
    _wait_ready(ordeal, "slow-end")
    ordeal.cluster.lab.kubectl("delete", "pod", "-n", NAMESPACE, "slow-end", "--wait=false")
    yield
    yield
    _delete(ordeal, "slow-end")


def terminating_long(ordeal: Ordeal) -> Iterator[None]:
    """Have a pod that is being deleted, whose container takes longer to end than an agent waits for it.

    The node is refused, and looked at again two minutes later.
    """
    slow = _container("slow", STAY, lifecycle={"preStop": {"exec": {"command": ["sleep", "140"]}}})
    ordeal.free.add(f"{NAMESPACE}/long-end")
    ordeal.cluster.lab.apply(_pod(ordeal, "long-end", slow, terminationGracePeriodSeconds=150))
    _wait_ready(ordeal, "long-end")
    ordeal.cluster.lab.kubectl("delete", "pod", "-n", NAMESPACE, "long-end", "--wait=false")
    yield
    seen: set[str] = set()

    def refused_and_again() -> bool:
        status = ordeal.status()
        seen.add(str(status.get("reason", "")))
        return status.get("phase") not in {"Refused", None} and "PodInTransition" in seen

    wait_until("the second look", refused_and_again, timeout=300, interval=1)
    ordeal.notes.append("refused once, and looked at again")
    yield
    _delete(ordeal, "long-end")


def finalizer(ordeal: Ordeal) -> Iterator[None]:
    """Have a pod that is deleted and ended, but held by a finalizer."""
    lab = ordeal.cluster.lab
    pod = _pod(ordeal, "held", _container("main", STAY))
    pod["metadata"] = {"name": "held", "namespace": NAMESPACE, "finalizers": ["nodeupgrade.test/held"]}
    ordeal.free.add(f"{NAMESPACE}/held")
    lab.apply(pod)
    _wait_ready(ordeal, "held")
    lab.kubectl("delete", "pod", "-n", NAMESPACE, "held", "--wait=false")
    time.sleep(4)
    yield
    yield
    lab.kubectl("patch", "pod", "-n", NAMESPACE, "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def ephemeral(ordeal: Ordeal) -> Iterator[None]:
    """Have a debug container running in a pod."""
    ordeal.cluster.lab.apply(_pod(ordeal, "debugged", _container("main", STAY)))
    _wait_ready(ordeal, "debugged")
    debug = ("debug", "-n", NAMESPACE, "debugged", f"--image={IMAGE}", "--image-pull-policy=Never", "-c", "look")
    ordeal.uncompared.add("look")
    ordeal.cluster.lab.kubectl(*debug, "--", "sleep", "3600")
    time.sleep(3)
    yield
    yield
    running = [c.name for c in ordeal.cluster.node.snapshot().running() if c.pod == f"{NAMESPACE}/debugged"]
    ordeal.notes.append(f"running: {', '.join(sorted(running))}")
    _delete(ordeal, "debugged")


def churn(ordeal: Ordeal) -> Iterator[None]:
    """Create a short-lived pod on the node every second, cordoned or not, until the run is over."""
    ordeal.free.add(f"{NAMESPACE}/churn-")
    over = threading.Event()

    def create() -> None:
        number = 0
        while not over.wait(1):
            number += 1
            body = _pod(ordeal, f"churn-{number}", _container("main", "sleep 5"), restartPolicy="Never")
            ordeal.cluster.lab.apply(body)

    thread = threading.Thread(target=create, daemon=True)
    thread.start()
    try:
        time.sleep(5)
        yield
        yield
    finally:
        over.set()
        thread.join(timeout=60)
        pods = ordeal.cluster.lab.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").stdout.split()
        churned = [name.removeprefix("pod/") for name in pods if name.startswith("pod/churn-")]
        ordeal.notes.append(f"{len(churned)} pods came and went")
        _delete(ordeal, *churned)


def rollout(ordeal: Ordeal) -> Iterator[None]:
    """Roll a Deployment over and over while the node is being cordoned and upgraded."""
    ordeal.free.add(f"{NAMESPACE}/rolling")
    lab, here = ordeal.cluster.lab, {"kubernetes.io/hostname": ordeal.cluster.node.name}
    containers = [_container("main", STAY)]
    template = {
        "metadata": {"labels": {"app": "rolling"}},
        "spec": {"terminationGracePeriodSeconds": 1, "nodeSelector": here, "containers": containers},
    }
    lab.apply({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rolling", "namespace": NAMESPACE},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "rolling"}}, "template": template},
    })  # fmt: skip
    over = threading.Event()

    def restart() -> None:
        while not over.wait(1.5):
            lab.kubectl("rollout", "restart", "-n", NAMESPACE, "deployment/rolling", check=False)

    thread = threading.Thread(target=restart, daemon=True)
    thread.start()
    try:
        time.sleep(5)
        yield
        yield
    finally:
        over.set()
        thread.join(timeout=60)
        lab.kubectl("delete", "deployment", "-n", NAMESPACE, "rolling", "--wait=true", timeout=120)


def _wait_ready(ordeal: Ordeal, name: str) -> None:
    ordeal.cluster.lab.kubectl_wait("wait", "-n", NAMESPACE, f"pod/{name}", "--for=condition=Ready", timeout=60)


_NEVER: Object = {"restartPolicy": "Never"}
_INIT: Object = {"initContainers": [_container("init-container", "sleep 3600")]}
_PULL: Object = {"name": "main", "image": "nodeupgrade.test/absent:1", "imagePullPolicy": "Never"}
_MOUNT: Object = {"volumes": [{"name": "none", "configMap": {"name": "absent"}}]}
_MOUNTS: Object = {"volumeMounts": [{"name": "none", "mountPath": "/none"}]}
FAULTS: tuple[Fault, ...] = (
    Fault("noise/crash-loop", noisy("crash", _container("main", "sleep 0.3; exit 1"), wait=12), ANY),
    Fault("noise/crash-often", noisy("crash", _container("main", "sleep 6; exit 1"), wait=3), ANY),
    Fault("noise/exits-zero", noisy("again", _container("main", "sleep 6; exit 0"), wait=3), ANY),
    Fault("noise/one-of-two-restarts", noisy("half", _container("main", STAY), _container("other", "sleep 7")), ANY),
    Fault("noise/job", job, ANY),
    Fault("noise/completed", noisy("done", _container("main", "exit 0"), spec=_NEVER), UP),
    Fault("noise/failed", noisy("failed", _container("main", "exit 1"), spec=_NEVER), UP),
    Fault("noise/terminating", terminating, ANY),
    Fault("noise/terminating-long", terminating_long, UP),
    Fault("noise/finalizer", finalizer, ANY),
    Fault("noise/image-pull", noisy("pull", _PULL), UP),
    Fault("noise/container-creating", noisy("mount", _container("main", STAY, **_MOUNTS), spec=_MOUNT), UP),
    Fault("noise/long-init", noisy("init", _container("main", STAY), free=False, spec=_INIT), UP),
    Fault("noise/ephemeral", ephemeral, UP),
    Fault("noise/churn", churn, ANY),
    Fault("noise/rollout", rollout, ANY),
)
