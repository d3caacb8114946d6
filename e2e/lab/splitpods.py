"""Pods that containerd has split over two shims, as it may while the machine is busy.

Any restart of the runtime loses such a pod, so every run is rightly refused. Tests that want one make it themselves.
"""

import json

from e2e.lab import nodefiles
from e2e.lab.lab import Lab
from e2e.lab.node import Node
from e2e.lab.podstatus import Object, is_mirror
from e2e.lab.process import wait_until


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
