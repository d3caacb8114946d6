"""A node whose kubelet was built to accept the hashes of an older one too, with containers that still carry them."""

from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.checks.hashes import COMPARED_WITHIN
from tests.doubles.node.containers.pods import manifest, pod_json
from tests.doubles.node.kubelet import PROGRAM, program
from tests.doubles.node.simulated import SimulatedNode

FIRST, PATCHED = "v1.12.10", "v1.19.16-both.1"
LISTED = ("1.12",)
LONG = COMPARED_WITHIN.total_seconds()
OLD_ONES = frozenset({"nginx", "log", "etcd"})
"""The containers that carry the hash of the first kubelet."""


def mixed(*, accepts: tuple[str, ...] = (FIRST,), ran: float = LONG) -> SimulatedNode:
    """A node whose kubelet was exchanged by hand for a patched one, and which got another pod since."""
    node = SimulatedNode(
        version=FIRST, pods=[pod_json("web", "nginx", "log")], manifests={"etcd.yaml": manifest("etcd", "etcd")}
    )
    node.kubelet.also_accepts[PATCHED] = accepts
    node.kubelet.stop()
    node.disk[PROGRAM] = program(PATCHED)
    node.disk.update({path: _pinned(node, data) for path, data in node.disk.items() if path.endswith("/etcd.yaml")})
    node.kubelet.pods.append(parse_pod(pod_json("late", "queue")))
    node.services.start_kubelet()
    node.timeline.advance(ran)
    return node


def _pinned(node: SimulatedNode, data: bytes) -> bytes:
    uid = next(sandbox.pod.uid for sandbox in node.inventory().sandboxes if sandbox.is_static)
    return data.replace(b"  name: etcd\n", f"  name: etcd\n  uid: {uid}\n".encode(), 1)


def hashes(node: SimulatedNode) -> dict[str, HashValue | None]:
    """Return the hashes that the running containers serve, by name."""
    return {each.name: each.hashes.container for each in node.inventory().running()}
