"""Pods that change while the kubelet is swapped.

Each run must end in one of two ways: upgraded, and nothing restarted that did not restart by itself; or refused (or
rolled back) with a message that says why.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

from e2e import pods
from e2e.cluster import Object
from e2e.faults.fault import BACK, EITHER, UP, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.nodes.nodeimages import BUSYBOX
from e2e.lab.process import wait_until
from e2e.pods import NAMESPACE, STAY
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark

ANY = EITHER | {"Refused"}


def _pod(run: FaultRun, name: str, *containers: Object, **spec: Any) -> Object:
    return pods.pod(run.cluster, name, *containers, **spec)


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
        pods.forget(run.cluster, name)

    return harm


def _said(run: FaultRun, name: str) -> str:
    found = run.cluster.lab.kubectl("get", "pod", "-n", NAMESPACE, name, "--no-headers", check=False).stdout.split()
    return " ".join(found[:4])


def job(run: FaultRun) -> Iterator[None]:
    """Let a Job's pod complete in the middle of the run."""
    yield from noisy("job", pods.container("job", "sleep 14"), wait=1, spec=_NEVER)(run)


def _waiting(run: FaultRun, name: str, script: str, **spec: Any) -> Callable[[], None]:
    """Run a pod that ends once it is told to, and return what tells it."""
    lab, node = run.cluster.lab, run.cluster.node
    run.free.add(f"{NAMESPACE}/{name}")
    waits = f"until [ -e /go/on ]; do sleep 0.1; done; {script}"
    main = pods.container("main", waits, volumeMounts=[{"name": "go", "mountPath": "/go"}])
    lab.apply(_pod(run, name, main, volumes=[{"name": "go", "emptyDir": {}}], **spec))
    pods.wait_ready(run.cluster, name)
    uid = lab.kubectl("get", "pod", "-n", NAMESPACE, name, "-o", "jsonpath={.metadata.uid}").stdout
    on = f"/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir/go/on"

    def end() -> None:
        before = _of(run, name)
        node.exec("touch", on)
        wait_until(f"the end of {name}", lambda: not before & _of(run, name), timeout=60, interval=0.1)

    return end


def _of(run: FaultRun, name: str) -> set[str]:
    """Return the running containers of a pod."""
    return {c.id for c in run.cluster.node.snapshot().running() if c.pod == f"{NAMESPACE}/{name}"}


def crashing_without_kubelet(*, before: bool) -> Harm:
    """Have a container crash when the runtime is restarted and no kubelet runs; perhaps before the upgrade, too."""

    def harm(run: FaultRun) -> Iterator[None]:
        crash = _waiting(run, "crash", "rm /go/on; exit 1")
        if before:
            crash()
            wait_until("another container", lambda: _of(run, "crash"), timeout=60, interval=0.2)
        restart = at(Step.RESTART_RUNTIME, When.ANNOUNCED)
        with run.armed(restart, "hang"):
            yield
            run.wait_hit(restart)
            crash()
            run.release(restart)
            yield
        pods.forget(run.cluster, "crash")

    return harm


def over_and_deleted(run: FaultRun) -> Iterator[None]:
    """Have a pod that ends by itself while the new kubelet settles, and is deleted, so that the kubelet forgets it."""
    lab, name = run.cluster.lab, "over"
    end = _waiting(run, name, "exit 0", **_NEVER)
    yield
    run.wait_record(Step.VERIFY, Mark.DOING)
    end()
    wait_until("the end of the pod", lambda: "Completed" in _said(run, name), timeout=60, interval=0.2)
    lab.kubectl("delete", "pod", "-n", NAMESPACE, name, "--wait=false")
    gone = lambda: not any(c.pod == f"{NAMESPACE}/{name}" for c in run.cluster.node.snapshot().containers)  # noqa: E731
    wait_until("the removal of its container", gone, timeout=120, interval=0.5)
    run.notes.append(f"removed while the task was {run.phase()}")
    yield


def streaming(every: float) -> Harm:
    """Have a pod come every so many seconds that lives for 6 s, as CI runners and Spark make them, during the run.

    A node that cannot keep up gets no more than twice as many as would be there if it could.
    """
    most = 2 * ceil(_SHORT_SECONDS / every)

    def harm(run: FaultRun) -> Iterator[None]:
        run.free.add(f"{NAMESPACE}/short-")
        over, began, names = threading.Event(), time.monotonic(), itertools.count()

        def come_and_go() -> None:
            for tick in itertools.count():
                if over.wait(max(0.0, began + every * tick - time.monotonic())):
                    return
                with contextlib.suppress(LabError):  # of an API server that a fault has stopped, too
                    _one_comes(run, names, most)

        coming = threading.Thread(target=come_and_go)
        coming.start()
        time.sleep(9)
        try:
            yield
            yield
        finally:
            over.set()
            coming.join()
        run.notes.append(f"a pod every {(time.monotonic() - began) / next(names):.1f} s")
        marks = {(r.step, r.mark): r.monotonic for r in run.journal().records}
        looked, stopping = (Step.ARM_DEAD_MAN, Mark.DONE), (Step.STOP_KUBELET, Mark.DOING)
        if {looked, stopping} <= marks.keys():
            run.notes.append(f"{marks[stopping] - marks[looked]:.3f} s from the last look to the stop")
        run.notes.append(f"attempts: {run.attempts()}")
        run.cluster.lab.kubectl("delete", "pods", "-n", NAMESPACE, "-l", _SHORT, "--wait=true", timeout=180)
        pods.wait_ended(run.cluster, "short-")

    return harm


def _one_comes(run: FaultRun, names: Iterator[int], most: int) -> None:
    """Create a short-lived pod unless there are ``most``, and delete those that have ended."""
    api = run.cluster.lab.api
    there = api.list("pods", namespace=NAMESPACE, labels=_SHORT)
    ended = [pod for pod in there if pod["status"].get("phase") in {"Succeeded", "Failed"}]
    for pod in ended:
        if "deletionTimestamp" not in pod["metadata"]:
            api.delete("pods", pod["metadata"]["name"], namespace=NAMESPACE)
    if len(there) - len(ended) < most:
        main, metadata = pods.container("main", f"sleep {_SHORT_SECONDS}"), {"labels": {"app": "short"}}
        api.create("pods", _pod(run, f"short-{next(names)}", main, metadata=metadata, **_NEVER), namespace=NAMESPACE)


def terminating(run: FaultRun) -> Iterator[None]:
    """Have a pod that is being deleted, whose container takes 40 s to end."""
    slow = pods.container("slow", STAY, lifecycle={"preStop": {"exec": {"command": ["sleep", "40"]}}})
    run.free.add(f"{NAMESPACE}/slow-end")
    run.cluster.lab.apply(_pod(run, "slow-end", slow, terminationGracePeriodSeconds=45))
    pods.wait_ready(run.cluster, "slow-end")
    run.cluster.lab.kubectl("delete", "pod", "-n", NAMESPACE, "slow-end", "--wait=false")
    yield
    yield
    pods.forget(run.cluster, "slow-end")


def terminating_long(run: FaultRun) -> Iterator[None]:
    """Have a pod that is being deleted, whose container takes longer to end than an agent waits for it.

    The node is refused, and examined again two minutes later.
    """
    slow = pods.container("slow", STAY, lifecycle={"preStop": {"exec": {"command": ["sleep", "140"]}}})
    run.free.add(f"{NAMESPACE}/long-end")
    run.cluster.lab.apply(_pod(run, "long-end", slow, terminationGracePeriodSeconds=150))
    pods.wait_ready(run.cluster, "long-end")
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
    pods.forget(run.cluster, "long-end")


def finalizer(run: FaultRun) -> Iterator[None]:
    """Have a pod that is deleted and ended, but held by a finalizer."""
    lab = run.cluster.lab
    pod = pods.pod(run.cluster, "held", metadata={"finalizers": ["nodeupgrade.test/held"]})
    run.free.add(f"{NAMESPACE}/held")
    lab.apply(pod)
    pods.wait_ready(run.cluster, "held")
    lab.kubectl("delete", "pod", "-n", NAMESPACE, "held", "--wait=false")
    time.sleep(4)
    yield
    yield
    lab.kubectl("patch", "pod", "-n", NAMESPACE, "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def ephemeral(run: FaultRun) -> Iterator[None]:
    """Have a debug container running in a pod."""
    run.cluster.lab.apply(_pod(run, "debugged", pods.container()))
    pods.wait_ready(run.cluster, "debugged")
    debug = ("debug", "-n", NAMESPACE, "debugged", f"--image={BUSYBOX}", "--image-pull-policy=Never", "-c", "look")
    run.uncompared.add("look")
    run.cluster.lab.kubectl(*debug, "--", "sleep", "3600")
    time.sleep(3)
    yield
    yield
    running = [c.name for c in run.cluster.node.snapshot().running() if c.pod == f"{NAMESPACE}/debugged"]
    run.notes.append(f"running: {', '.join(sorted(running))}")
    pods.forget(run.cluster, "debugged")


@contextlib.contextmanager
def again_and_again(act: Callable[[], object], *, seconds: float) -> Iterator[None]:
    """Act beside what the context does, with pauses, until it ends."""
    over = threading.Event()

    def repeat() -> None:
        while not over.wait(seconds):
            act()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=60)


def churn(run: FaultRun) -> Iterator[None]:
    """Create a short-lived pod on the node every second, cordoned or not, until the run has ended."""
    run.free.add(f"{NAMESPACE}/churn-")
    numbers = itertools.count(1)

    def create() -> None:
        short = pods.container("main", "sleep 5")
        run.cluster.lab.apply(_pod(run, f"churn-{next(numbers)}", short, restartPolicy="Never"))

    try:
        with again_and_again(create, seconds=1):
            time.sleep(5)
            yield
            yield
    finally:
        there = run.cluster.lab.kubectl("get", "pods", "-n", NAMESPACE, "-o", "name").stdout.split()
        churned = [name.removeprefix("pod/") for name in there if name.startswith("pod/churn-")]
        run.notes.append(f"{len(churned)} pods came and went")
        pods.forget(run.cluster, *churned)


def rollout(run: FaultRun) -> Iterator[None]:
    """Roll out a Deployment again and again while the node is being cordoned and upgraded."""
    run.free.add(f"{NAMESPACE}/rolling")
    lab, here = run.cluster.lab, {"kubernetes.io/hostname": run.cluster.node.name}
    containers = [pods.container()]
    template = {
        "metadata": {"labels": {"app": "rolling"}},
        "spec": {"terminationGracePeriodSeconds": 1, "nodeSelector": here, "containers": containers},
    }
    lab.apply({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "rolling", "namespace": NAMESPACE},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "rolling"}}, "template": template},
    })  # fmt: skip
    restart = ("rollout", "restart", "-n", NAMESPACE, "deployment/rolling")
    try:
        with again_and_again(lambda: lab.kubectl(*restart, check=False), seconds=1.5):
            time.sleep(5)
            yield
            yield
    finally:
        lab.kubectl("delete", "deployment", "-n", NAMESPACE, "rolling", "--wait=true", timeout=120)
        pods.wait_ended(run.cluster, "rolling-")  # or the next run's oracle sees them go


_SHORT, _SHORT_SECONDS = "app=short", 6
_NEVER: Object = {"restartPolicy": "Never"}
_SETTLES: Object = {"verify": {"settle": "80s"}}
"""Longer than a minute, after which a kubelet that was started collects the containers of pods that are gone."""
_SETTLES_ALONE: Object = {"verify": {"settle": "80s", "shield": "Off"}}
_INIT: Object = {"initContainers": [pods.container("init-container", "sleep 3600")]}
_PULL: Object = {"name": "main", "image": "nodeupgrade.test/absent:1", "imagePullPolicy": "Never"}
_MOUNT: Object = {"volumes": [{"name": "none", "configMap": {"name": "absent"}}]}
_MOUNTS: Object = {"volumeMounts": [{"name": "none", "mountPath": "/none"}]}
FAULTS: tuple[Fault, ...] = (
    Fault("noise/crash-loop", noisy("crash", pods.container("main", "sleep 0.3; exit 1"), wait=12), ANY),
    Fault("noise/crash-often", noisy("crash", pods.container("main", "sleep 6; exit 1"), wait=3), ANY),
    Fault("noise/crash-without-kubelet", crashing_without_kubelet(before=True), UP),
    Fault("noise/first-crash-without-kubelet", crashing_without_kubelet(before=False), BACK),
    Fault("noise/exits-zero", noisy("again", pods.container("main", "sleep 6; exit 0"), wait=3), ANY),
    Fault("noise/one-of-two-restarts", noisy("half", pods.container(), pods.container("other", "sleep 7")), ANY),
    Fault("noise/job", job, ANY),
    Fault("noise/completed", noisy("done", pods.container("main", "exit 0"), spec=_NEVER), UP),
    Fault("noise/failed", noisy("failed", pods.container("main", "exit 1"), spec=_NEVER), UP),
    Fault("noise/over-and-deleted", over_and_deleted, UP, spec=_SETTLES),
    Fault("noise/over-and-deleted-unshielded", over_and_deleted, UP, spec=_SETTLES_ALONE),
    Fault("noise/stream", streaming(1.5), UP),
    Fault("noise/terminating", terminating, ANY),
    Fault("noise/terminating-long", terminating_long, UP),
    Fault("noise/finalizer", finalizer, ANY),
    Fault("noise/image-pull", noisy("pull", _PULL), UP),
    Fault("noise/container-creating", noisy("mount", pods.container("main", STAY, **_MOUNTS), spec=_MOUNT), UP),
    Fault("noise/long-init", noisy("init", pods.container(), free=False, spec=_INIT), UP),
    Fault("noise/ephemeral", ephemeral, UP),
    Fault("noise/churn", churn, ANY),
    Fault("noise/rollout", rollout, ANY),
)
