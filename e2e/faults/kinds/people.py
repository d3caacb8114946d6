"""What people and their tools do to a node and to the rollout during a kubelet swap."""

from collections.abc import Iterator

from e2e.faults.fault import EITHER, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Mark


def upgrade_deleted(step: Step | None) -> Harm:
    """Delete the NodeUpgrade: at once, or in the middle of the run."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        if step is None:
            wait_until("a cordon", lambda: not run.cluster.schedulable(), timeout=60, interval=0.02)
        else:
            run.wait_record(step, Mark.DOING)
        run.cluster.lab.kubectl("delete", "nodeupgrade", run.name, "--wait=false")
        run.notes.append(f"deleted in {run.phase() or 'no phase'}")
        yield

    return harm


def paused(run: FaultRun) -> Iterator[None]:
    """Pause the rollout in the middle of its only node, which is finished all the same."""
    yield
    run.wait_record(Step.STOP_KUBELET, Mark.DOING)
    patch = '{"spec":{"action":"Pause"}}'
    run.cluster.lab.kubectl("patch", "nodeupgrade", run.name, "--type=merge", "-p", patch)
    yield


def cordoned_by_others(run: FaultRun) -> Iterator[None]:
    """Remove our cordon and change labels in the middle of the run."""
    lab, name = run.cluster.lab, run.cluster.node.name
    yield
    run.wait_record(Step.STOP_KUBELET, Mark.DOING)
    lab.kubectl("uncordon", name)
    lab.kubectl("label", "node", name, "nodeupgrade.test/fault=yes", "--overwrite")
    run.wait_record(Step.VERIFY, Mark.DOING)
    run.notes.append("uncordoned by hand")
    yield
    lab.kubectl("label", "node", name, "nodeupgrade.test/fault-")


def second_upgrade(run: FaultRun) -> Iterator[None]:
    """Request another version for the same node during the run."""
    other = f"{run.name}-too"
    cluster = run.cluster
    yield
    run.wait_record(Step.STOP_KUBELET, Mark.DOING)
    cluster.apply(other, run.old, cluster.pre_staged(run.old), nodes={"names": [cluster.node.name]})
    run.wait_record(None, Mark.FINISHED)
    status = cluster.get(other).get("status", {})
    run.notes.append(f"the second is {status.get('phase')}: {[f['reason'] for f in status.get('failures', [])]}")
    # It may do its own work after the first has ended; here it must not.
    cluster.delete(other)
    yield


def pod_deleted(run: FaultRun) -> Iterator[None]:
    """Delete a pod and create another on the node while the kubelet is down."""
    cluster = run.cluster
    victim = _extra_pod(run, "victim")
    run.free |= {"workload/victim", "workload/newcomer"}
    cluster.lab.apply(victim)
    _wait_ready(run, "victim")
    yield
    run.wait_record(Step.STOP_KUBELET, Mark.DOING)
    cluster.lab.kubectl("delete", "pod", "-n", "workload", "victim", "--wait=false")
    cluster.lab.apply(_extra_pod(run, "newcomer"))
    yield
    cluster.lab.kubectl("delete", "pod", "-n", "workload", "newcomer", "victim", "--ignore-not-found", timeout=120)


def pod_deleted_just_before(run: FaultRun) -> Iterator[None]:
    """Delete a pod between the plan and the stop of the kubelet."""
    cluster = run.cluster
    run.free.add("workload/victim")
    cluster.lab.apply(_extra_pod(run, "victim"))
    _wait_ready(run, "victim")
    yield
    wait_until("the plan", lambda: _planned(run), timeout=120, interval=0.005)
    cluster.lab.kubectl("delete", "pod", "-n", "workload", "victim", "--wait=false", "--grace-period=1")
    yield
    cluster.lab.kubectl("delete", "pod", "-n", "workload", "victim", "--ignore-not-found", timeout=120)


def _planned(run: FaultRun) -> bool:
    root = run.cluster.node.root / "var/lib/nodeupgrade/runs"
    return any(path.parent.name not in run.runs_before for path in root.glob("*/plan.json"))


def _extra_pod(run: FaultRun, name: str) -> dict[str, object]:
    container = {
        "name": "main", "image": "nodeupgrade.test/busybox:1", "imagePullPolicy": "Never",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done"],
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "workload"},
        "spec": {
            "nodeName": run.cluster.node.name, "terminationGracePeriodSeconds": 1, "containers": [container],
        },
    }  # fmt: skip


def _wait_ready(run: FaultRun, name: str) -> None:
    run.cluster.lab.kubectl_wait("wait", "-n", "workload", f"pod/{name}", "--for=condition=Ready", timeout=60)


FAULTS: tuple[Fault, ...] = (
    Fault("people/deleted-at-once", upgrade_deleted(None), EITHER | {"Failed"}),
    Fault("people/deleted", upgrade_deleted(Step.STOP_KUBELET)),
    Fault("people/paused", paused),
    Fault("people/uncordoned", cordoned_by_others),
    Fault("people/second-upgrade", second_upgrade),
    Fault("people/pods", pod_deleted),
    Fault("people/pod-just-before", pod_deleted_just_before),
)
