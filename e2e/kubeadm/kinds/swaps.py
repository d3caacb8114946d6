"""A worker and a control-plane node there and back; the control, which restarts everything, is on the same nodes."""

from collections.abc import Callable, Iterator

from e2e.kubeadm import static_pods
from e2e.kubeadm.row import Row, Seen
from e2e.kubeadm.stage import NEW, OLD, Stage, Upgraded, wait_for_version
from e2e.lab.nodes.node import Node
from e2e.naive import survivors
from nodeupgrade.api.reasons import Reason

Which = Callable[[Stage], Node]


def _worker(stage: Stage) -> Node:
    return stage.worker


def control(stage: Stage) -> Node:
    """Return the first control-plane node."""
    return stage.control[0]


def _upgraded(name: str, version: str, which: Which) -> Callable[[Stage], Seen]:
    def play(stage: Stage) -> Seen:
        node = which(stage)
        stage.bring(node, OLD if version == NEW else NEW)
        written = static_pods.without_lines(static_pods.manifests(stage.control[0]))
        leading = stage.fleet.operator_node() == node.name
        run = stage.upgrade(name, version, [node])
        said = f"{run.seconds:.0f} s" + ("; the operator ran on it" if leading else "")
        return Seen(run=run, said=said, complaints=tuple(_wrong(stage, node, version, run, written)))

    return play


def _wrong(stage: Stage, node: Node, version: str, run: Upgraded, written: dict[str, str]) -> Iterator[str]:
    yield from run.wrong()
    wait_for_version(stage, node, version)
    now = static_pods.manifests(stage.control[0])
    if (now if version == OLD else static_pods.without_lines(now)) != written:
        yield "the manifests of the control plane are not what kubeadm wrote"
    told = {hazard["reason"] for hazard in stage.fleet.task(node.name)["status"].get("hazards", ())}
    if (Reason.KUBEADM_UPGRADES_FIRST in told) != (node in stage.control):
        yield f"it is {'not ' if node in stage.control else ''}said what kubeadm does first"


def naive(which: Which) -> Callable[[Stage], Seen]:
    """Return what swaps a node's kubelet the usual way, which must restart everything there, and puts it back."""

    def play(stage: Stage) -> Seen:
        node = which(stage)
        stage.bring(node, OLD)
        before = {c.id for c in node.settled(quiet=2).running()}
        left = survivors(node, NEW)
        after = {c.id for c in node.snapshot().running()}
        _put_back(stage, node)
        wrong = ("the naive swap did not restart everything: this proves nothing",) if left else ()
        return Seen(containers=len(before), disturbed=len(before - after), complaints=wrong)

    return play


def _put_back(stage: Stage, node: Node) -> None:
    node.swap_naively(OLD)
    stage.lab.wait_ready()
    wait_for_version(stage, node, OLD)
    node.settled(quiet=8)


ROWS = (
    Row(name="worker/there", does=f"worker {OLD} → {NEW}", play=_upgraded("worker-there", NEW, _worker)),
    Row(name="worker/back", does=f"worker {NEW} → {OLD}", play=_upgraded("worker-back", OLD, _worker)),
    Row(name="control-plane/there", does=f"control-plane node {OLD} → {NEW}",
        play=_upgraded("control-plane-there", NEW, control)),
    Row(name="control-plane/back", does=f"control-plane node {NEW} → {OLD}",
        play=_upgraded("control-plane-back", OLD, control)),
    Row(name="worker/control", does="control: the worker's kubelet swapped the usual way", play=naive(_worker)),
    Row(name="control-plane/control", does="control: that of the control-plane node", play=naive(control)),
)  # fmt: skip
