"""Pods that change while the kubelet is swapped.

Each run must end in one of two ways: upgraded, and nothing restarted that did not restart by itself; or refused (or
rolled back) with a message that says why.
"""

import threading
import time
from collections.abc import Iterator

from e2e.faults.fault import EITHER, UP, Fault, Harm
from e2e.faults.run import FaultRun
from e2e.lab.process import wait_until

NAMESPACE = "workload"
IMAGE = "nodeupgrade.test/busybox:1"
STAY = "trap 'exit 0' TERM; while :; do sleep 1; done"
ANY = EITHER | {"Refused"}
Object = dict[str, object]


def _container(name: str, script: str, **more: object) -> Object:
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", script], **more}


def _pod(run: FaultRun, name: str, *containers: Object, **spec: object) -> Object:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "nodeName": run.cluster.node.name, "terminationGracePeriodSeconds": 1, "containers": list(containers),
            **spec,
        },
    }  # fmt: skip


def noisy(name: str, *containers: Object, spec: Object | None = None, wait: float = 8, free: bool = True) -> Harm:
    """Run a pod of this kind on the node, from some seconds before the upgrade until it has ended."""

    def harm(run: FaultRun) -> Iterator[None]:
        if free:
            run.free.add(f"{NAMESPACE}/{name}")
        run.uncompared.add("init-container")
        run.cluster.lab.apply(_pod(run, name, *containers, **(spec or {})))
        time.sleep(wait)
        yield
        yield
        run.notes.append(_said(run, name))
        _delete(run, name)

    return harm


def _said(run: FaultRun, name: str) -> str:
    found = run.cluster.lab.kubectl("get", "pod", "-n", NAMESPACE, name, "--no-headers", check=False).stdout.split()
    return " ".join(found[:4])


def _delete(run: FaultRun, *names: str) -> None:
    delete = ("delete", "pod", "-n", NAMESPACE, *names, "--ignore-not-found", "--grace-period=0", "--force")
    run.cluster.lab.kubectl(*delete, timeout=120)


def job(run: FaultRun) -> Iterator[None]:
    """Let a Job's pod complete in the middle of the run."""
    yield from noisy("job", _container("job", "sleep 14"), wait=1, spec=_NEVER)(run)


def terminating(run: FaultRun) -> Iterator[None]:
    """Have a pod that is being deleted, whose container takes 40 s to end."""
    slow = _container("slow", STAY, lifecycle={"preStop": {"exec": {"command": ["sleep", "40"]}}})
    run.free.add(f"{NAMESPACE}/slow-end")
    run.cluster.lab.apply(_pod(run, "slow-end", slow, terminationGracePeriodSeconds=45))
    _wait_ready(run, "slow-end")
    run.cluster.lab.kubectl("delete", "pod", "-n", NAMESPACE, "slow-end", "--wait=false")
    yield
    yield
    _delete(run, "slow-end")


def terminating_long(run: FaultRun) -> Iterator[None]:
    """Have a pod that is being deleted, whose container takes longer to end than an agent waits for it.

    The node is refused, and examined again two minutes later.
    """
    slow = _container("slow", STAY, lifecycle={"preStop": {"exec": {"command": ["sleep", "140"]}}})
    run.free.add(f"{NAMESPACE}/long-end")
    run.cluster.lab.apply(_pod(run, "long-end", slow, terminationGracePeriodSeconds=150))
    _wait_ready(run, "long-end")
    run.cluster.lab.kubectl("delete", "pod", "-n", NAMESPACE, "long-end", "--wait=false")
    yield
    seen: set[str] = set()

    def refused_and_again() -> bool:
        status = run.status()
        seen.add(str(status.get("reason", "")))
        return status.get("phase") not in {"Refused", None} and "PodInTransition" in seen

    wait_until("the second look", refused_and_again, timeout=300, interval=1)
    run.notes.append("refused once, and looked at again")
    yield
    _delete(run, "long-end")


def finalizer(run: FaultRun) -> Iterator[None]:
    """Have a pod that is deleted and ended, but held by a finalizer."""
    lab = run.cluster.lab
    pod = _pod(run, "held", _container("main", STAY))
    pod["metadata"] = {"name": "held", "namespace": NAMESPACE, "finalizers": ["nodeupgrade.test/held"]}
    run.free.add(f"{NAMESPACE}/held")
    lab.apply(pod)
    _wait_ready(run, "held")
    lab.kubectl("delete", "pod", "-n", NAMESPACE, "held", "--wait=false")
    time.sleep(4)
    yield
    yield
    lab.kubectl("patch", "pod", "-n", NAMESPACE, "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def ephemeral(run: FaultRun) -> Iterator[None]:
    """Have a debug container running in a pod."""
    run.cluster.lab.apply(_pod(run, "debugged", _container("main", STAY)))
    _wait_ready(run, "debugged")
    debug = ("debug", "-n", NAMESPACE, "debugged", f"--image={IMAGE}", "--image-pull-policy=Never", "-c", "look")
    run.uncompared.add("look")
    run.cluster.lab.kubectl(*debug, "--", "sleep", "3600")
    time.sleep(3)
    yield
    yield
    running = [c.name for c in run.cluster.node.snapshot().running() if c.pod == f"{NAMESPACE}/debugged"]
    run.notes.append(f"running: {', '.join(sorted(running))}")
    _delete(run, "debugged")


def churn(run: FaultRun) -> Iterator[None]:
    """Create a short-lived pod on the node every second, cordoned or not, until the run has ended."""
    run.free.add(f"{NAMESPACE}/churn-")
    over = threading.Event()

    def create() -> None:
        number = 0
        while not over.wait(1):
            number += 1
            body = _pod(run, f"churn-{number}", _container("main", "sleep 5"), restartPolicy="Never")
            run.cluster.lab.apply(body)

    thread = threading.Thread(target=create, daemon=True)
    thread.start()
    try:
        time.sleep(5)
        yield
        yield
    finally:
        over.set()
        thread.join(timeout=60)
        pods = run.cluster.lab.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").stdout.split()
        churned = [name.removeprefix("pod/") for name in pods if name.startswith("pod/churn-")]
        run.notes.append(f"{len(churned)} pods came and went")
        _delete(run, *churned)


def rollout(run: FaultRun) -> Iterator[None]:
    """Roll out a Deployment again and again while the node is being cordoned and upgraded."""
    run.free.add(f"{NAMESPACE}/rolling")
    lab, here = run.cluster.lab, {"kubernetes.io/hostname": run.cluster.node.name}
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


def _wait_ready(run: FaultRun, name: str) -> None:
    run.cluster.lab.kubectl_wait("wait", "-n", NAMESPACE, f"pod/{name}", "--for=condition=Ready", timeout=60)


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
