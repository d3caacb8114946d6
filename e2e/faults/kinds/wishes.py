"""Owners change their pods while the kubelet is swapped; in each control, something else happens that nobody wanted.

What an owner changes must be let through and named, and count as no restart. In the controls a kubelet wants to end a
container that it does not recognise, beside such a change: that must be refused, and turn the run back.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from e2e import pods
from e2e.changes import added, restart_runtime
from e2e.cluster import Object
from e2e.faults.fault import BACK, UP, Fault, is_containerd
from e2e.faults.kinds.shield import wait_for_refusals
from e2e.faults.run import TURN_BACK, FaultRun, Harm
from e2e.faults.tamper import WRONG, store_hash
from e2e.lab import LabError
from e2e.lab.nodes.nodeimages import BUSYBOX, PAUSE
from e2e.lab.process import wait_until
from e2e.pods import NAMESPACE
from e2e.static_pods import FOLDER, StaticPods
from e2e.static_pods import pod as static_pod
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED, Failpoint, When, at

WISH, BYSTANDER, STATIC = "wish", "bystander", "wished"
MANIFEST = f"{FOLDER}/{STATIC}.yaml"
BEFORE_START, BEFORE_PIN = at(Step.START_KUBELET, When.ANNOUNCED), at(Step.PIN_STATIC_PODS, When.ANNOUNCED)
SEEN_SECONDS = 2.0
"""How long an agent may take to see a change."""
STAY = ["/bin/busybox", "sh", "-c", "trap 'exit 0' TERM; while :; do /bin/busybox sleep 1; done"]  # runs in each image
SLOW = ["/bin/busybox", "sh", "-c", "trap '/bin/busybox sleep 25; exit 0' TERM; while :; do /bin/busybox sleep 1; done"]
PATIENT: Object = {"verify": {"settle": "8s", "kubeletDownBudget": "90s"}}

Act = Callable[[FaultRun], object]


def image(run: FaultRun) -> None:
    """Set a container's image, as ``kubectl set image`` and OpenKruise do."""
    run.cluster.lab.kubectl("set", "image", "-n", NAMESPACE, f"pod/{WISH}", f"main={PAUSE}")


def resize(run: FaultRun) -> None:
    """Give a container more memory, for which kubelets up to 1.30 restart it."""
    more = {"name": "main", "resources": {"requests": {"memory": "48Mi"}, "limits": {"memory": "48Mi"}}}
    patch = json.dumps({"spec": {"containers": [more]}})
    run.cluster.lab.kubectl("patch", "pod", "-n", NAMESPACE, WISH, "--subresource=resize", "-p", patch)


def delete(run: FaultRun) -> None:
    """Delete the pod."""
    run.cluster.lab.kubectl("delete", "pod", "-n", NAMESPACE, WISH, "--wait=false")


def evict(run: FaultRun) -> None:
    """Evict the pod, as a drain or a descheduler does."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": WISH, "namespace": NAMESPACE}}
    where = f"/api/v1/namespaces/{NAMESPACE}/pods/{WISH}/eviction"
    run.cluster.lab.kubectl("create", "--raw", where, "-f", "-", input=json.dumps(body))


def debug(run: FaultRun) -> None:
    """Add a debug container."""
    how = (f"--image={BUSYBOX}", "--image-pull-policy=Never", "-c", "look", "--", "sleep", "3600")
    run.cluster.lab.kubectl("debug", "-n", NAMESPACE, WISH, *how)


def edit(run: FaultRun) -> None:
    """Replace the manifest of a static pod by one with another variable, as configuration management does."""
    mark = "    imagePullPolicy: Never\n"
    text = static_pod(STATIC).replace(mark, f"{mark}    env: [{{name: EDITED, value: wished}}]\n")
    StaticPods(run.cluster).write(MANIFEST, text)


def remove(run: FaultRun) -> None:
    """Remove the manifest of a static pod."""
    run.cluster.node.exec("rm", MANIFEST)


def claim(run: FaultRun) -> None:
    """Have the status say that another image runs, as only the spec can want it."""
    [status] = [s for s in _shown(run)["status"]["containerStatuses"] if s["name"] == "main"]
    patch = json.dumps({"status": {"containerStatuses": [{**status, "image": PAUSE, "imageID": PAUSE}]}})
    run.cluster.lab.kubectl("patch", "pod", "-n", NAMESPACE, WISH, "--subresource=status", "-p", patch)


def wished(act: Act, change: str, *, of: str = f"{WISH}/main", back: bool = False, command: list[str] = STAY) -> Harm:
    """Have an owner change a pod while no kubelet runs, and require that it is named and nothing else happens.

    Args:
        act: changes it.
        change: as the status names it.
        of: the pod or container as the status names it.
        back: whether the run is to be turned back afterwards.
        command: what the changed container runs.
    """

    def harm(run: FaultRun) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(pods.running(run.cluster, _pod(run, command)))
            before = _instances(run)
            stack.enter_context(run.armed(BEFORE_START, "hang"))
            if back:
                run.arm(TURN_BACK, "enospc")
            yield
            _act(run, act, BEFORE_START)
            yield
            _require_named(run, change, of)
            if of.endswith("/main"):
                after = _instances(run)
                if lost := {name for name, id_ in before.items() if after.get(name) != id_} - {"main"}:
                    raise LabError(f"these changed as well: {lost}")
                if change == "ImageChanged" and after.get("main") == before["main"]:
                    raise LabError("the container did not change: this proves nothing")

    return harm


def just_before(run: FaultRun) -> Iterator[None]:
    """Set an image between the plan and the stop of the kubelet."""
    with pods.running(run.cluster, _pod(run, STAY)):
        before = _instances(run)
        yield
        wait_until("the plan", lambda: _planned(run) or None, timeout=120, interval=0.005)
        image(run)
        yield
        after = _instances(run)
        if after["other"] != before["other"] or after["sandbox"] != before["sandbox"]:
            raise LabError("more than one container changed")
        _require_named(run, "ImageChanged", f"{WISH}/main")


def wished_static(act: Act, change: str, moment: Failpoint) -> Harm:
    """Have a manifest edited or removed while the executor hangs at a moment."""

    def harm(run: FaultRun) -> Iterator[None]:
        statics, name = StaticPods(run.cluster), f"{NAMESPACE}/{STATIC}-{run.cluster.node.name}"
        run.free.add(name)
        with added(run.cluster.node, MANIFEST, static_pod(STATIC)):
            wait_until("the static pod", lambda: statics.container(STATIC), timeout=60)
            with run.armed(moment, "hang"):
                yield
                _act(run, act, moment)
                yield
            _require_named(run, change, name.removeprefix(f"{NAMESPACE}/"))
            if not statics.becomes(lambda: _is_as_wished(statics, act)):
                raise LabError("what the owner wanted did not happen")
        wait_until("the end of the static pod", lambda: not statics.container(STATIC), timeout=60)

    return harm


def _is_as_wished(statics: StaticPods, act: Act) -> bool:
    return "EDITED=wished" in statics.environment(STATIC) if act is edit else statics.container(STATIC) is None


def static_added(run: FaultRun) -> Iterator[None]:
    """Add a manifest between the plan and the stop of the kubelet, and another while none runs."""
    statics, later = StaticPods(run.cluster), f"{FOLDER}/later.yaml"
    run.free |= {f"{NAMESPACE}/{STATIC}", f"{NAMESPACE}/later"}
    try:
        with run.armed(BEFORE_START, "hang"):
            yield
            wait_until("the plan", lambda: _planned(run) or None, timeout=120, interval=0.005)
            statics.write(MANIFEST, static_pod(STATIC))
            _act(run, lambda _run: statics.write(later, static_pod("later")), BEFORE_START)
            yield
        wait_until("both pods", lambda: all(map(statics.container, (STATIC, "later"))) or None, timeout=60)
        _require_named(run, "ManifestAdded", f"{STATIC}-{run.cluster.node.name}")
    finally:
        run.cluster.node.exec("rm", "-f", MANIFEST, later)
    wait_until("their end", lambda: not any(map(statics.container, (STATIC, "later"))), timeout=60)


def control(act: Act, victim: str) -> Harm:
    """Beside what an owner changes, let the new kubelet not recognise another container: its hash is wrong.

    Args:
        act: what the owner does; what it changes is no excuse for the victim.
        victim: ``pod/container``.
    """

    def harm(run: FaultRun) -> Iterator[None]:
        with (
            pods.running(run.cluster, _pod(run, STAY)),
            pods.running(run.cluster, pods.pod(run.cluster, BYSTANDER)),
        ):
            yield from _unrecognised(run, act, victim)

    return harm


def static_control(run: FaultRun) -> Iterator[None]:
    """Let the new kubelet not recognise a static pod whose manifest is only touched."""
    statics, name = StaticPods(run.cluster), f"{STATIC}-{run.cluster.node.name}"
    with added(run.cluster.node, MANIFEST, static_pod(STATIC)):
        wait_until("the static pod", lambda: statics.container(STATIC), timeout=60)
        yield from _unrecognised(run, lambda _run: run.cluster.node.exec("touch", MANIFEST), f"{name}/main")
        run.free.add(f"{NAMESPACE}/{name}")
    wait_until("the end of the static pod", lambda: not statics.container(STATIC), timeout=60)


def _unrecognised(run: FaultRun, act: Act, victim: str) -> Iterator[None]:
    pod, _, name = victim.partition("/")
    [before] = [c for c in run.cluster.node.snapshot().running() if _is(c.pod, pod) and c.name == name]
    with run.armed(BEFORE_START, "hang"), run.armed(KUBELET_STARTED, "hang"):
        yield
        run.wait_hit(BEFORE_START)
        store_hash(run.cluster, before.id, WRONG)
        restart_runtime(run.cluster.node)
        _act(run, act, BEFORE_START)
        run.wait_hit(KUBELET_STARTED)
        wait_for_refusals(run)
        run.release(KUBELET_STARTED)
        yield
    message = str(run.cluster.task()["status"]["message"])
    if f"{NAMESPACE}/{victim}" not in message:
        raise LabError(f"{victim} is not named: {message}")
    if before.id not in {c.id for c in run.cluster.node.snapshot().running()}:
        raise LabError(f"{victim} was not kept")


def _act(run: FaultRun, act: Act, moment: Failpoint) -> None:
    run.wait_hit(moment)
    act(run)
    time.sleep(SEEN_SECONDS)
    run.release(moment)


def _pod(run: FaultRun, command: list[str]) -> Object:
    run.free.add(f"{NAMESPACE}/{WISH}")
    memory = {"requests": {"memory": "32Mi"}, "limits": {"memory": "32Mi"}}
    main = {**pods.container("main"), "command": command, "resources": memory}
    return pods.pod(run.cluster, WISH, main, pods.container("other"), terminationGracePeriodSeconds=40)


def _instances(run: FaultRun) -> dict[str, str]:
    now = run.cluster.node.snapshot()
    sandboxes = [("sandbox", s.id) for s in now.sandboxes if _is(s.pod, WISH) and s.running]
    return dict(sandboxes) | {c.name: c.id for c in now.running() if _is(c.pod, WISH)}


def _is(pod: str, name: str) -> bool:
    return pod == f"{NAMESPACE}/{name}"


def _shown(run: FaultRun) -> Object:
    return run.cluster.lab.api.get("pods", WISH, namespace=NAMESPACE)


def _planned(run: FaultRun) -> bool:
    return any((path / "plan.json").exists() for path in run.runs() if path.name not in run.runs_before)


def _require_named(run: FaultRun, change: str, of: str) -> None:
    counts = run.cluster.task()["status"]["containers"]
    named = {(each["name"], each["change"]) for each in counts.get("ownerChanges", [])}
    run.notes.append(", ".join(f"{name} {what}" for name, what in sorted(named)) or "nothing named")
    if (f"{NAMESPACE}/{of}", change) not in named:
        raise LabError(f"{change} of {of} is not named: {counts}")
    if counts.get("restarted"):
        raise LabError(f"it counts as a restart: {counts}")


FAULTS: tuple[Fault, ...] = (
    Fault("wish/image", wished(image, "ImageChanged"), UP),
    Fault("wish/image-control", control(image, f"{WISH}/other"), BACK, needs=is_containerd, spec=PATIENT),
    Fault("wish/resize-control", control(resize, f"{WISH}/other"), BACK, needs=is_containerd, spec=PATIENT),
    # With CRI-O 1.34, the API server takes the new kubelet for one that cannot resize, and refuses it.
    Fault("wish/resize", wished(resize, "Resized"), UP, needs=is_containerd),
    Fault("wish/manifest-edited", wished_static(edit, "ManifestChanged", BEFORE_START), UP),
    Fault("wish/manifest-removed", wished_static(remove, "ManifestRemoved", BEFORE_PIN), UP),
    Fault("wish/manifest-edited-before", wished_static(edit, "ManifestChanged", BEFORE_PIN), UP),
    Fault("wish/manifest-control", static_control, BACK, needs=is_containerd, spec=PATIENT),
    Fault("wish/manifest-added", static_added, UP),
    Fault("wish/deleted", wished(delete, "PodDeleted", of=WISH), UP),
    Fault("wish/deleted-slowly", wished(delete, "PodDeleted", of=WISH, command=SLOW), UP),
    Fault("wish/evicted", wished(evict, "PodDeleted", of=WISH), UP),
    Fault("wish/deleted-control", control(delete, f"{BYSTANDER}/main"), BACK, needs=is_containerd, spec=PATIENT),
    Fault("wish/debug", wished(debug, "EphemeralContainerAdded", of=f"{WISH}/look"), UP),
    Fault("wish/debug-control", control(debug, f"{WISH}/other"), BACK, needs=is_containerd, spec=PATIENT),
    Fault("wish/status-control", control(claim, f"{WISH}/main"), BACK, needs=is_containerd, spec=PATIENT),
    Fault("wish/image-just-before", just_before, UP),
    Fault("wish/image-going-back", wished(image, "ImageChanged", back=True), BACK),
)
"""The API server lets a pod be resized only if its kubelet is 1.33 or later, which is so after the first row."""
