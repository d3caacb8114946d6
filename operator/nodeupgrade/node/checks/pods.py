"""Checks of pods, as the runtime and the API server report them: would each survive the start of another kubelet?"""

from collections import Counter
from collections.abc import Iterator

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodUid
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.nodes import Taint
from nodeupgrade.cluster.placement import tolerated_seconds
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history
from nodeupgrade.kubelethash import changes
from nodeupgrade.node.checks.facts import NodeFacts

NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")

KUBEADM = "kubeadm.kubernetes.io/"
"""How the annotations begin that kubeadm gives to the API server and to etcd."""

NOT_READY_SECONDS = 30
"""Longer than a starting kubelet reports its node as not ready, and than the control plane takes to see the end."""


@check(Reason.STORED_HASH_NOT_REPRODUCED, Hazard.HASH_NOT_REPRODUCED, acceptable=False)
def stored_is_served(facts: NodeFacts) -> Iterator[Found]:
    """The runtime stores the hashes that it serves, so that its restart alone changes nothing."""
    for container in facts.inventory.running():
        stored = facts.stored.get(container.id)
        if stored != container.hashes:
            found = "nothing" if stored is None else stored.container or "no hash"
            detail = (
                f"the runtime serves hash {container.hashes.container} but stores {found}: the stored record "
                "was changed, which takes effect at the next restart of the runtime; delete the pod first"
            )
            yield container.label, detail


@check(Reason.POD_IN_TRANSITION, Hazard.SANDBOX_UNSOUND)
def sandboxes_are_sound(facts: NodeFacts) -> Iterator[Found]:
    """Every pod with a running container has one ready sandbox with an address.

    Otherwise any kubelet start replaces the sandbox and all its containers (kubernetes ``PodSandboxChanged``).
    """
    alive = {container.sandbox_id for container in facts.inventory.running()}
    by_age = sorted(facts.inventory.sandboxes, key=lambda sandbox: sandbox.created_at)
    newest = {sandbox.pod.uid: sandbox.created_at for sandbox in by_age}
    ready = Counter(sandbox.pod.uid for sandbox in by_age if sandbox.ready)
    for sandbox in facts.inventory.sandboxes:
        if sandbox.id not in alive:
            continue
        if not sandbox.ready:
            problem = "its sandbox is not ready although containers run in it"
        elif ready[sandbox.pod.uid] > 1:
            problem = f"it has {ready[sandbox.pod.uid]} ready sandboxes"
        elif sandbox.created_at < newest[sandbox.pod.uid]:
            problem = "it has a newer sandbox, which is not ready"
        elif sandbox.ip == "" and not sandbox.host_network:
            problem = "its sandbox has no address"
        else:
            continue
        yield sandbox.pod, problem


@check(Reason.RUNTIME_RESTART_WOULD_KILL_POD, Reason.RUNTIME_NOT_READY, Hazard.RUNTIME_LOSES_STATE, acceptable=False)
def pods_survive_a_restart(facts: NodeFacts) -> Iterator[Found]:
    """No pod is in a state in which a restart of the runtime is known to harm it."""
    yield from facts.hazards.pods


@check(Reason.POD_IN_TRANSITION, Hazard.POD_IN_TRANSITION, acceptable=False)
def runtime_holds_the_pods(facts: NodeFacts) -> Iterator[Found]:
    """Every container that the API server reports as running is held by the runtime.

    Otherwise the kubelet uses a runtime other than the one examined, and the proof does not apply to it.
    """
    held = {container.id for container in facts.inventory.containers}
    for pod in facts.pods:
        for name, container_id in () if pod.finished else pod.running:
            if container_id and container_id not in held:
                detail = (
                    f"the API server shows container {container_id[:12]} running, which {facts.runtime.name} does not "
                    "hold: it was just replaced, or the kubelet uses another runtime"
                )
                yield f"{pod.ref}/{name}", detail


@check(
    Reason.TAINT_NOT_TOLERATED,
    Hazard.NODE_REPORTS_NOT_READY,
    Hazard.ACTORS_REACT,
    history.NODE_STEADY,
    warns=True,
    remedy=f"choose {history.NODE_STEADY.since} or later, or let these pods tolerate it longer",
)
def pods_outlast_a_node_that_is_not_ready(facts: NodeFacts) -> Iterator[Found]:
    """Every pod tolerates for a while that its node is not ready, if the new kubelet may report so when it starts.

    The control plane taints such a node, and deletes pods that do not tolerate the taint for long enough.
    """
    if history.NODE_STEADY.applies_to(facts.target) or facts.spec.guard.wanted:
        return
    if short := [str(pod.ref) for pod in facts.running_pods() if _is_soon_evicted(pod)]:
        yield (
            f"kubelet {facts.target} may report its node NotReady once when it starts "
            f"({history.NODE_STEADY.reference}), and the control plane may then delete {counted(len(short), 'pod')} "
            f"without a toleration of {NOT_READY.key} for {NOT_READY_SECONDS} s: {named(short)}"
        )


def evicted_without_a_mark(facts: NodeFacts) -> Iterator[PodUid]:
    """Yield the pods whose eviction from a node that is not ready for a moment would look like their owner's wish.

    A kubelet is never newer than its API server.
    """
    if not any(map(history.EVICTIONS_MARKED.applies_to, filter(None, (facts.current, facts.target)))):
        yield from (pod.ref.uid for pod in facts.pods if _is_soon_evicted(pod))


def _is_soon_evicted(pod: Pod) -> bool:
    stays = pod.from_manifest or pod.terminating
    return not stays and tolerated_seconds(pod, NOT_READY) < NOT_READY_SECONDS


@check(Reason.STATIC_POD_EDIT_PENDING, changes.NAME_AND_IMAGE_HASHED, warns=True)
def edits_of_manifests_count(facts: NodeFacts) -> Iterator[Found]:
    """No manifest was edited while it names the UID of the running pod, so that the pod does not run as it says.

    Kubelets from 1.31 on replace a container of such a pod only if its name or image changes.
    """
    current = facts.current
    if current is None or not changes.NAME_AND_IMAGE_HASHED.applies_to(current):
        return
    for each in facts.edited:
        detail = (
            f"{each.path} was edited, but still names metadata.uid, so kubelet {current} has not replaced the pod: it "
            "runs on as it was, and each of its containers applies the edit when it next restarts"
        )
        yield each.sandbox.pod, detail


@check(Reason.STATIC_PODS_RECREATED, warns=True)
def static_pods_run_on(facts: NodeFacts) -> Iterator[Found]:
    """No static pod is replaced, as ``kubelet.staticPods: Recreate`` asks."""
    for pod in facts.recreated:
        yield pod, f"kubelet {facts.target} will replace it, as kubelet.staticPods: Recreate asks"


@check(Reason.KUBEADM_UPGRADES_FIRST, warns=True)
def control_plane_is_not_of_kubeadm(facts: NodeFacts) -> Iterator[Found]:
    """No pod of the node is one of the control plane that kubeadm made: there, the order with `kubeadm upgrade` counts.

    `kubeadm upgrade` replaces a static pod whose manifest differs from its own in any line, and that of another minor
    version has `metadata.uid` after a run.
    """
    made = sorted(str(pod) for pod in facts.pods if any(key.startswith(KUBEADM) for key in pod.annotations))
    current = facts.current
    if not made or current is None:
        return
    detail = (
        f"kubeadm created {' and '.join(made)}: `kubeadm upgrade` comes first, then a restart of the kubelet, whose "
        "configuration kubeadm wrote, then this run"
    )
    if current.minor != facts.target.minor:
        detail += (
            "; a run to another minor version leaves metadata.uid in manifests, unless it is the way back, and where "
            "it is, `kubeadm upgrade` replaces all static pods of the control plane, also those that it would leave"
        )
    yield detail
