"""What a kubelet must do goes on under the raised shield, or turns the run back with its true cause, then is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePath

from e2e.faults.fault import BACK, UP, Fault
from e2e.faults.kinds.shield import refused, wait_for_refusals
from e2e.faults.run import FaultRun
from e2e.lab import LabError
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload
from nodeupgrade import bundle
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Mark

ENDS, SICK, STOPPED = "ends-with-sidecar", "falls-sick", "stopped-by-hand"
FOR_EVER = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
HOLD_SECONDS = 10
WATCHED: dict[str, object] = {
    "verify": {"settle": "20s", "kubeletDownBudget": "90s", "shield": "Require", "shieldHold": f"{HOLD_SECONDS}s"}
}
CALL = """
import sys, grpc
container = sys.argv[1].encode()
with grpc.insecure_channel("unix:" + sys.argv[2]) as channel:
    stop = channel.unary_unary("/runtime.v1.RuntimeService/StopContainer")
    try:
        stop(b"\\n" + bytes([len(container)]) + container + b"\\x10\\x01", timeout=60)
        print("stopped")
    except grpc.RpcError as error:
        print(error.details())
"""


def ends_with_a_sidecar(run: FaultRun) -> Iterator[None]:
    """End the only regular container of a pod that has a native sidecar, as a Job does, under the raised shield."""
    sidecar = workload.container("proxy", FOR_EVER, restartPolicy="Always")
    main = workload.container("main", "while [ ! -e /end ]; do sleep 0.2; done")
    with _pod(run, ENDS, {"restartPolicy": "Never", "initContainers": [sidecar], "containers": [main]}):
        yield
        run.wait_record(Step.VERIFY, Mark.DOING)
        _within(run, ENDS, "touch", "/end")
        wait_until("the end of the sidecar", lambda: not run.cluster.runs(ENDS), timeout=30)
        run.notes.append(f"the sidecar ended, {len(refused(run))} calls refused")
        yield
        phase = run.cluster.lab.api.get("pods", ENDS, namespace=workload.NAMESPACE)["status"]["phase"]
        if phase != "Succeeded":
            raise LabError(f"the pod is {phase}")


def fails_its_liveness_probe(run: FaultRun) -> Iterator[None]:
    """Let a container fail its liveness probe under the raised shield, and go on failing it under the old kubelet."""
    probe = {"exec": {"command": ["test", "!", "-e", "/sick"]}, "periodSeconds": 1, "failureThreshold": 1}
    with _pod(run, SICK, {"containers": [workload.container("main", FOR_EVER, livenessProbe=probe)]}):
        yield
        run.wait_record(Step.VERIFY, Mark.DOING)
        _within(run, SICK, "touch", "/sick")
        wait_for_refusals(run)
        yield
        _tell(run)
        listed = run.cluster.task()["status"]["containers"].get("restartedList", [])
        if f"{workload.NAMESPACE}/{SICK}/main" not in listed:
            raise LabError(f"the restart is not told of: {listed}")


def stopped_by_hand(run: FaultRun) -> Iterator[None]:
    """Let a person stop a container over the runtime's socket, as ``crictl stop`` does."""
    with _pod(run, STOPPED, {"containers": [workload.container("main", FOR_EVER)]}):
        yield
        run.wait_record(Step.VERIFY, Mark.DOING)
        node = run.cluster.node
        [victim] = [c for c in node.snapshot().running() if c.pod == f"{workload.NAMESPACE}/{STOPPED}"]
        [root] = (node.root / "var/lib/nodeupgrade/bundles").glob("[!.]*")
        words = bundle.command(PurePath("/") / root.relative_to(node.root), "-")
        told = node.exec(*words[:-2], "-c", CALL, victim.id, node.runtime.socket, timeout=90).stdout.strip()
        run.notes.append(f"told {told[-120:]}")
        yield
        _tell(run)
        if " (process " not in run.cluster.task()["status"]["message"]:
            raise LabError("the caller is not named")


def _within(run: FaultRun, pod: str, *words: str) -> None:
    """Execute a command in a pod's main container, once the new kubelet knows the pod."""
    arguments = ("exec", "-n", workload.NAMESPACE, pod, "-c", "main", "--", *words)
    done = lambda: run.cluster.lab.kubectl(*arguments, check=False).returncode == 0 or None  # noqa: E731
    wait_until(f"{' '.join(words)} in {pod}", done, timeout=30, interval=0.3)


def _tell(run: FaultRun) -> None:
    run.notes.append(str(run.cluster.task()["status"]["message"])[:600])


@contextmanager
def _pod(run: FaultRun, name: str, spec: dict[str, object]) -> Iterator[None]:
    """Keep a pod of its own on the node, which may change by itself, for as long as the context lasts."""
    lab = run.cluster.lab
    run.free.add(f"{workload.NAMESPACE}/{name}")
    lab.apply(workload.pod(name, spec, run.cluster.node.name))
    lab.kubectl_wait("wait", "-n", workload.NAMESPACE, f"pod/{name}", "--for=condition=Ready", timeout=60)
    yield
    lab.kubectl("delete", "pod", "-n", workload.NAMESPACE, name, timeout=120)


FAULTS: tuple[Fault, ...] = (
    Fault("shield/duty-sidecar", ends_with_a_sidecar, UP, spec=WATCHED),
    Fault("shield/duty-liveness", fails_its_liveness_probe, BACK, spec=WATCHED),
    Fault("shield/duty-by-hand", stopped_by_hand, BACK, spec=WATCHED),
)
