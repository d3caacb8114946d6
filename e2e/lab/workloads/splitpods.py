"""Pods that containerd has split over two shims, as it may while the machine is busy.

Any restart of the runtime loses such a pod, so every run is rightly refused. Tests of that split pods on purpose, as
containerd does it itself: where it cannot reach a sandbox's shim, it starts another one for the next container.
"""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from e2e.lab.cluster.podstatus import Object, is_mirror
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import ContainerInstance
from e2e.lab.process import wait_until

TASKS = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
LOOK_SECONDS = 0.002


def make_anew(lab: Lab, namespace: str) -> bool:
    """Replace the split pods of a namespace by new ones of the same name; return whether there were any.

    The new ones may not run yet, and may be split as well.
    """
    found = False
    for node in lab.nodes.values():
        if not node.alive or not node.runtime.shares_monitors:
            continue
        for pod in sorted(node.snapshot().split_pods()):
            space, _, name = pod.partition("/")
            if space == namespace:
                _replace(lab, node, lab.api.get("pods", name, namespace=space))
                found = True
    return found


def _replace(lab: Lab, node: Node, pod: Object) -> None:
    meta = pod["metadata"]
    if is_mirror(pod):
        _replace_static(node, meta["name"].removesuffix(f"-{node.name}"))
        return
    lab.kubectl("delete", "pod", meta["name"], "--namespace", meta["namespace"], timeout=180)
    if "ownerReferences" not in meta:
        kept = {key: meta[key] for key in ("name", "namespace", "labels", "annotations") if key in meta}
        # Not applied: whoever applies the original again would take the defaults back that it does not name.
        anew = {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": pod["spec"]}
        lab.kubectl("create", "-f", "-", input=json.dumps(anew))


def _replace_static(node: Node, name: str) -> None:
    path = f"{nodefiles.STATIC_PODS}/{name}.json"
    manifest = node.disk / path.lstrip("/")
    text = manifest.read_text()
    manifest.unlink()
    gone = "the end of a static pod", lambda: not any(name in c.pod for c in node.snapshot().running())
    wait_until(*gone, timeout=120)
    node.write(path, text)


def split(lab: Lab, node: Node, victim: ContainerInstance) -> None:
    """Let a container run under another shim than its sandbox: it is killed, and its successor gets its own.

    Returns when the API shows the successor as ready, so that nothing but the shims is wrong with the pod.
    """
    _lose_socket(node, node.root / TASKS / victim.sandbox_id)
    node.exec("kill", "-KILL", str(victim.pid))
    namespace, _, name = victim.pod.partition("/")

    def again() -> bool:
        statuses = lab.api.get("pods", name, namespace=namespace)["status"]["containerStatuses"]
        found = [status for status in statuses if status["name"] == victim.name and status["ready"]]
        return any(not status["containerID"].endswith(victim.id) for status in found)

    wait_until("the container's successor", again, timeout=120)


@contextlib.contextmanager
def splitting(node: Node, prefix: str) -> Iterator[set[str]]:
    """Split every new pod with this prefix of its name; yields the names of those that were seen split."""
    seen, over = set[str](), threading.Event()
    thread = threading.Thread(target=_split_new_ones, args=(node, prefix, seen, over))
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def _split_new_ones(node: Node, prefix: str, seen: set[str], over: threading.Event) -> None:
    tasks = node.root / TASKS
    known = {place.name for place in tasks.iterdir()}
    lost = False
    while not over.is_set():
        for place in tasks.iterdir():
            if place.name not in known and (place / "init.pid").exists():  # the runtime has reached the shim by now
                known.add(place.name)
                with contextlib.suppress(FileNotFoundError):  # it has ended already
                    if _is_sandbox(place, prefix):
                        _lose_socket(node, place)
                        lost = True
        if lost and not seen:
            with contextlib.suppress(LabError):  # the runtime is being restarted
                seen |= {pod for pod in node.snapshot().split_pods() if pod.partition("/")[2].startswith(prefix)}
        time.sleep(LOOK_SECONDS)


def _is_sandbox(place: Path, prefix: str) -> bool:
    told = json.loads((place / "config.json").read_text())["annotations"]
    kind, name = told["io.kubernetes.cri.container-type"], told["io.kubernetes.cri.sandbox-name"]
    return bool(kind == "sandbox" and name.startswith(prefix))


def _lose_socket(node: Node, place: Path) -> None:
    address = (place / "address").read_text().strip().removeprefix("unix://")
    (node.root / address.lstrip("/")).unlink()
