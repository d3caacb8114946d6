"""Gives the operator's pods on old nodes the tokens of their service accounts.

Kubelets ask for them from 1.12 on. Before, the API server put them into Secrets, which none does from 1.21 on. So
between such a kubelet and such an API server a pod gets no token; here the lab asks for it in the kubelet's place.
"""

import contextlib
import threading
import time

from e2e.lab.binaries.versions import Version
from e2e.lab.cluster.reader import Object
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes.node import Node

ASKED_FOR = (1, 12)
"""Kubelets from then on ask for tokens."""

_LOOK_SECONDS = 0.3
_OURS = "..lab"  # the kubelet removes what it did not write from its own directory only


def serve(lab: Lab, namespace: str) -> None:
    """Give the pods of a namespace tokens, on all nodes that need it, for as long as this process and they live."""
    for node in lab.nodes.values():
        if Version.parse(node.record.kubelet).release < ASKED_FOR:
            threading.Thread(target=_serve, args=(lab, node, namespace), daemon=True).start()


def _serve(lab: Lab, node: Node, namespace: str) -> None:
    while node.directory.exists():
        with contextlib.suppress(LabError, OSError):  # a volume may be gone, and the API server may be stopped
            for pod in lab.api.list("pods", namespace=namespace, fields=f"spec.nodeName={node.name}"):
                _give(lab, node, pod)
        time.sleep(_LOOK_SECONDS)


def _give(lab: Lab, node: Node, pod: Object) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    volumes = node.root / "var/lib/kubelet/pods" / meta["uid"] / "volumes/kubernetes.io~projected"
    for volume in spec.get("volumes", ()):
        wanted = any("serviceAccountToken" in source for source in volume.get("projected", {}).get("sources", ()))
        directory = volumes / volume["name"]
        if not wanted or not (directory / "..data").is_dir() or (directory / "token").is_symlink():
            continue
        bound = ("--bound-object-kind=Pod", f"--bound-object-name={meta['name']}", f"--bound-object-uid={meta['uid']}")
        named = ("create", "token", spec["serviceAccountName"], f"--namespace={meta['namespace']}", "--duration=24h")
        token = lab.kubectl(*named, *bound).stdout.strip()
        (directory / _OURS).mkdir(exist_ok=True)
        (directory / _OURS / "token").write_text(token)
        (directory / _OURS / "token").chmod(0o644)
        (directory / "token").symlink_to(f"{_OURS}/token")
