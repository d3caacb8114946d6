"""`kubeadm upgrade` before, during and after a NodeUpgrade."""

import contextlib
import threading
from collections.abc import Callable, Mapping

from e2e.changes import restart_kubelet
from e2e.cluster import disturbed
from e2e.kubeadm import configmap, static_pods
from e2e.kubeadm.row import Row, Seen
from e2e.kubeadm.stage import NEW, OLD, Stage
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster import kubeadm
from e2e.lab.errors import LabError
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import Failpoint, When, at

WAITS = "90s"
"""An API server that waits for a restarted etcd is away for more than a minute on a busy machine."""
DOWN = at(Step.READ_BACK, When.DONE)
LONGER = {"kubeletDownBudget": "4m", "settle": "5s", "readinessGuard": "Off"}
MAX_PODS = 240


def upgrade_node(node: Node) -> None:
    """Run `kubeadm upgrade node`.

    Raises:
        LabError: it fails.
    """
    done = kubeadm.upgrade_node(node)
    if done.returncode:
        raise LabError(f"kubeadm upgrade node failed: {(done.stdout + done.stderr)[-500:]}")


def upgrade_apply(stage: Stage) -> tuple[int, str]:
    """Run `kubeadm upgrade apply` to the cluster's own release, and wait for the API server."""
    done = kubeadm.upgrade_apply(stage.control[0], Version.parse(stage.lab.spec.control_plane), waits="5m0s")
    wait_until("the API server", stage.lab.api.ready, timeout=180)
    return done.returncode, (done.stdout + done.stderr)[-500:]


def config(node: Node) -> bytes:
    """Return the content of a node's configuration file."""
    return (node.disk / nodefiles.KUBELET_CONFIG.lstrip("/")).read_bytes()


def _written_again(node: Node) -> str:
    """Let kubeadm write the configuration of a node's kubelet again, and say whether its content is the same."""
    before = config(node)
    upgrade_node(node)
    return f"the file's content was {'equal' if config(node) == before else 'another'}"


def _before_unasked(stage: Stage) -> Seen:
    node = stage.worker
    stage.bring(node, OLD)
    content = _written_again(node)
    refused = stage.upgrade("before-refused", NEW, [node])
    restart_kubelet(node)
    wait_until("a Ready node", lambda: stage.lab.node_readiness()[node.name], timeout=120)
    run = stage.upgrade("before-restarted", NEW, [node])
    said = f"{content}; first {refused.ended}: “{refused.message}”"
    wrong = [*refused.wrong("Refused (`ConfigurationDrift`)"), *run.wrong()]
    return Seen(run=run, said=f"{said}; after `systemctl restart kubelet` as told", complaints=wrong)


def _before_asked(stage: Stage) -> Seen:
    node = stage.worker
    stage.bring(node, NEW)
    content = _written_again(node)
    run = stage.upgrade("before-asked", OLD, [node])
    said = f"{content}: no drift, as the kubelet itself reports"
    return Seen(run=run, said=said, complaints=tuple(run.wrong()))


def _during(place: Failpoint, *, other: bool) -> Callable[[Stage], Seen]:
    def play(stage: Stage) -> Seen:
        node, name = stage.worker, f"during-{'other' if other else 'equal'}"
        stage.bring(node, OLD)
        same = config(node)

        def meanwhile() -> None:
            reached()
            with configmap.changed(stage.lab, maxPods=MAX_PODS) if other else contextlib.nullcontext():
                upgrade_node(node)
            resume()

        with stage.held(node, name, NEW, place) as (reached, resume):
            run = stage.upgrade(name, NEW, [node], meanwhile=meanwhile, verify=LONGER)
        wrong = [*run.wrong("RolledBack (`UnitChanged`)" if other else "Succeeded")]
        if (config(node) != same) is not other:
            wrong.append("the file's content is not what kubeadm writes")
        if other:
            (node.disk / nodefiles.KUBELET_CONFIG.lstrip("/")).write_bytes(same)
            restart_kubelet(node)
        return Seen(run=run, said=f"“{run.message}”" if other else "", complaints=wrong)

    return play


def _after(stage: Stage) -> Seen:
    node = stage.worker
    stage.bring(node, OLD)
    run = stage.upgrade("after", NEW, [node])
    before = node.settled(quiet=2)
    with configmap.changed(stage.lab, maxPods=MAX_PODS):
        upgrade_node(node)
    restart_kubelet(node)
    lost = disturbed(before, node.settled(quiet=5))
    upgrade_node(node)
    restart_kubelet(node)
    node.settled(quiet=5)
    said = f"with another `maxPods`, and a restart of the kubelet: {len(lost)} instances disturbed by that"
    return Seen(run=run, said=said, complaints=(*run.wrong(), *map(str, lost)))


def _apply_after_the_way_back(stage: Stage) -> Seen:
    node = stage.control[0]
    stage.bring(node, NEW)
    run = stage.upgrade("apply-back", OLD, [node])
    before = static_pods.instances(node)
    code, told = upgrade_apply(stage)
    replaced = _replaced(node, before)
    restart_kubelet(node)  # kubeadm has written its configuration
    node.settled(quiet=5)
    said = f"kubeadm ended with {code}, and replaced {replaced}"
    return Seen(run=run, said=said, complaints=(*run.wrong(), *((told,) if code else ())))


def _apply_after(stage: Stage) -> Seen:
    node = stage.control[0]
    stage.bring(node, OLD)
    run = stage.upgrade("apply-there", NEW, [node])
    lines = sum(text != static_pods.UID_LINE.sub("", text) for text in static_pods.manifests(node).values())
    before = static_pods.instances(node)
    code, told = upgrade_apply(stage)
    replaced = _replaced(node, before)
    restart_kubelet(node)
    node.settled(quiet=5)
    said = f"{lines} manifests had `metadata.uid`; kubeadm ended with {code}, and replaced {replaced}"
    return Seen(run=run, said=said, complaints=(*run.wrong(), *((told,) if code else ())))


def _apply_during(stage: Stage) -> Seen:
    """Let kubeadm replace the first manifest before the new kubelet is verified."""
    node, name = stage.control[0], "apply-during"
    stage.bring(node, OLD)
    if any(map(static_pods.UID_LINE.search, static_pods.manifests(node).values())):
        upgrade_apply(stage)  # the new kubelet made these pods: the run would take the lines out again
    ended = list[tuple[int, str]]()
    applying = threading.Thread(target=lambda: ended.append(upgrade_apply(stage)))
    before = static_pods.instances(node)

    def meanwhile() -> None:
        reached()
        applying.start()
        wait_until("kubeadm's first manifest", lambda: _written(node), timeout=300)
        resume()

    with stage.held(node, name, NEW, at(Step.VERIFY, When.ANNOUNCED)) as (reached, resume):
        run = stage.upgrade(name, NEW, [node], meanwhile=meanwhile, verify=LONGER)
    applying.join()
    wait_until("the API server", stage.lab.api.ready, timeout=180)
    restart_kubelet(node)
    node.settled(quiet=5)
    code, told = ended[0]
    kubeadm_said = f": {' '.join(told[-200:].split())}" if code else ""
    said = f"“{run.message}”; kubeadm ended with {code}{kubeadm_said}, and replaced {_replaced(node, before)}"
    return Seen(run=run, said=said, complaints=tuple(run.wrong("RolledBack (`ShieldRefusedCall`)")))


def _replaced(node: Node, before: Mapping[str, str]) -> str:
    """Tell which static pods of the control plane are not the same any more."""
    now = static_pods.instances(node)
    return ", ".join(name for name in static_pods.STATIC_PODS if now.get(name) != before.get(name)) or "nothing"


def _written(node: Node) -> bool:
    """Report whether kubeadm has written a manifest, without the line that the run has added to each."""
    with contextlib.suppress(FileNotFoundError):
        return not all(map(static_pods.UID_LINE.search, static_pods.manifests(node).values()))
    return True


ROWS = (
    Row(name="node/before", does=f"`kubeadm upgrade node` on the worker before {OLD} → {NEW}", play=_before_unasked),
    Row(name="node/before-asked", does=f"the same before {NEW} → {OLD}: this kubelet may be asked", play=_before_asked),
    Row(name="node/during", does="the same, while the node has no kubelet", play=_during(DOWN, other=False)),
    Row(name="node/during-other", does="the same, while the node has no kubelet: another `maxPods`",
        play=_during(DOWN, other=True)),
    Row(name="node/during-early", does="the same, after the plan and before the kubelet is stopped: another `maxPods`",
        play=_during(at(Step.CONFIRM_BINARIES, When.ANNOUNCED), other=True)),
    Row(name="node/after", does=f"the same after {OLD} → {NEW}", play=_after),
    Row(name="apply/after-back", does="control-plane node back, then `kubeadm upgrade apply`",
        play=_apply_after_the_way_back),
    Row(name="apply/after", does="control-plane node there, then `kubeadm upgrade apply`", play=_apply_after),
    Row(name="apply/during", does="`kubeadm upgrade apply` while the control-plane node's new kubelet is verified",
        play=_apply_during),
)  # fmt: skip
