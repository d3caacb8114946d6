"""Nodes that come and go while others are upgraded."""

from e2e.kubeadm.kinds.commands import DOWN, LONGER
from e2e.kubeadm.row import Row, Seen
from e2e.kubeadm.stage import NEW, OLD, Stage
from e2e.lab.cluster import kubeadm
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until

JOINING, LEAVING = "node9", "node8"


def _added(stage: Stage, name: str) -> Node:
    """Let a node join, and wait until it is Ready."""
    added = stage.lab.add_node(name)
    wait_until(f"{name} Ready", lambda: stage.lab.node_readiness().get(name), timeout=180)
    return added


def _join(stage: Stage) -> Seen:
    """Let a node join while the rollout of all nodes has the worker in flight, without a kubelet."""
    node = stage.worker
    stage.bring(node, OLD)

    def meanwhile() -> None:
        reached()
        _added(stage, JOINING)
        resume()

    with stage.held(node, "join", NEW, DOWN) as (reached, resume):
        run = stage.upgrade("join", NEW, [node], nodes={"all": True}, meanwhile=meanwhile, verify=LONGER)
    version = stage.fleet.versions()[JOINING]
    return Seen(run=run, said=f"it joined, was Ready, and keeps kubelet {version}", complaints=tuple(run.wrong()))


def _reset(stage: Stage) -> Seen:
    """Reset a node that has joined, and delete its object, while a rollout of both workers is on the other."""
    node, leaving = stage.worker, _added(stage, LEAVING)
    stage.bring(node, OLD)
    told = list[str]()

    def meanwhile() -> None:
        reached()
        done = kubeadm.reset(leaving)
        if done.returncode:
            told.append(f"kubeadm reset ended with {done.returncode}: {done.stderr[-300:]}")
        stage.lab.kubectl("delete", "node", leaving.name, timeout=120)
        resume()

    waves = [{"name": "first", "selector": {"matchLabels": {"kubernetes.io/hostname": node.name}}}]
    with stage.held(node, "reset", NEW, DOWN) as (reached, resume):
        every = {"nodes": {"all": True}, "waves": waves}
        run = stage.upgrade("reset", NEW, [node, leaving], meanwhile=meanwhile, verify=LONGER, **every)
    said = f"its Node was deleted, and the rollout ended without it: “{run.message}”"
    return Seen(run=run, said=said, complaints=(*run.wrong(), *told))


ROWS = (
    Row(name="members/join", does="`kubeadm join` of a node while the worker has no kubelet", play=_join),
    Row(name="members/reset", does="`kubeadm reset` and deletion of a node that waits for its turn", play=_reset),
)
