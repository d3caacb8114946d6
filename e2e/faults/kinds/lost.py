"""A run loses what it needs: the runtime's memory, an answer, its task, an agent, a place to execute from."""

import json
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from e2e import pods
from e2e.changes import changed, restart_kubelet, restart_runtime, with_settings
from e2e.faults.fault import BACK, EITHER, REFUSED, UP, Fault, is_containerd
from e2e.faults.kinds.drift import PATIENT, broken_configuration, other_root, stopped_at
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.cluster import deploy, images
from e2e.lab.cluster.deploy import NAMESPACE
from e2e.lab.nodes import nodefiles
from e2e.lab.oracle.snapshot import ContainerInstance
from e2e.lab.process import wait_until
from e2e.lab.runtimes import LabRuntime
from e2e.lab.workloads import splitpods
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark
from nodeupgrade.node.own_directories import PROGRAM_PLACES

FENCED_SECONDS = 60.0
"""The time within which the old kubelet would have been started, if it were started."""
SILENT_SECONDS = 80.0
LEASE_SECONDS = 30.0
TOLD_SECONDS = 60.0

# ── the runtime ─────────────────────────────────────────────────────────────────────────────────────────────────────


def runtime_without_baseline(run: FaultRun) -> Iterator[None]:
    """Let the runtime come back empty in mid-run: no kubelet may start.

    containerd 1.6 has then forgotten its containers for good, so that a person has to restart the node.
    """
    name = at(Step.READ_BACK, When.ANNOUNCED)
    with stopped_at(run, Step.READ_BACK, When.ANNOUNCED):
        yield
        run.wait_hit(name)
        with other_root(run):
            restart_runtime(run.cluster.node)
            run.release(name)
            _stays_fenced(run)
        run.cut_power_and_boot()
        yield
        run.wait_workload()


def runtime_cannot_start(run: FaultRun) -> Iterator[None]:
    """Break the runtime's configuration in mid-run: the run waits for a person, and then goes on by itself."""
    name, node = at(Step.READ_BACK, When.ANNOUNCED), run.cluster.node
    with stopped_at(run, Step.READ_BACK, When.ANNOUNCED):
        yield
        run.wait_hit(name)
        with broken_configuration(run):
            node.exec("systemctl", "restart", node.runtime.unit, check=False)
            run.release(name)
            _stays_fenced(run)
        node.exec("systemctl", "reset-failed", node.runtime.unit)
        restart_runtime(run.cluster.node)
        wait_until("a kubelet, once the runtime answers", node.kubelet_healthy, timeout=120, interval=0.2)
        yield


def container_paused(run: FaultRun) -> Iterator[None]:
    """Pause a container until the node is refused: the CRI shows it as running, a restarted containerd as unknown."""
    cluster = run.cluster
    run.free.add(f"{pods.NAMESPACE}/paused")
    with pods.running(cluster, pods.pod(cluster, "paused")):
        [meant] = [c for c in cluster.node.snapshot().running() if c.pod == f"{pods.NAMESPACE}/paused"]
        cluster.node.exec("ctr", "-n", "k8s.io", "tasks", "pause", meant.id)
        yield
        told = ("a refusal", lambda: "is paused" in str(run.status().get("message")) or None)
        wait_until(*told, timeout=180, interval=1)
        cluster.node.exec("ctr", "-n", "k8s.io", "tasks", "resume", meant.id)
        yield


def _stays_fenced(run: FaultRun) -> None:
    """Make sure that no kubelet runs, the Lease is renewed, and a status says why.

    Raises:
        LabError: one of these does not hold.
    """
    lab, name = run.cluster.lab, run.cluster.node.name
    end = time.monotonic() + FENCED_SECONDS
    while time.monotonic() < end:
        if run.processes("kubelet.service"):
            raise LabError("a kubelet was started on a runtime that does not show what ran before")
        time.sleep(0.2)
    renewed = datetime.fromisoformat(lab.api.get("leases", name, namespace="kube-node-lease")["spec"]["renewTime"])
    if (age := (datetime.now(UTC) - renewed).total_seconds()) > LEASE_SECONDS:
        raise LabError(f"nobody renews the Lease: it is {age:.0f} s old")
    run.notes.append(f"fenced for {FENCED_SECONDS:.0f} s; the task says {run.status()}")


def runtime_silent(run: FaultRun) -> Iterator[None]:
    """Stop the runtime from answering through the whole settle period, and end a container meanwhile."""
    victim = _web(run)
    run.free.add(victim.pod)
    yield
    run.wait_record(Step.VERIFY, Mark.DOING)
    run.kill_runtime(signal.SIGSTOP)
    try:
        run.cluster.node.exec("kill", "-9", str(victim.pid))
        time.sleep(SILENT_SECONDS)
    finally:
        run.kill_runtime(signal.SIGCONT)
    yield


def split_shim(run: FaultRun) -> Iterator[None]:
    """Let a container run under another shim than its sandbox; any restart of the runtime would lose the pod."""
    node, victim = run.cluster.node, _web(run)
    splitpods.split(run.cluster.lab, node, victim)
    if victim.pod not in node.snapshot().split_pods():
        raise LabError(f"{victim.pod} is not split")
    yield
    yield
    run.cluster.lab.kubectl("delete", "pod", "-n", *victim.pod.split("/"), timeout=120)


def split_agent(run: FaultRun) -> Iterator[None]:
    """Let the agent's own pod be split: the restart of the runtime loses it, and the run goes on without it."""
    node = run.cluster.node
    with splitpods.splitting(node, "nodeupgrade-agent") as seen:
        yield
        wait_until("an agent's pod that is split", lambda: seen, timeout=120)
        split = {s.id for s in node.snapshot().sandboxes if s.running and s.pod in seen}
    run.wait_record(Step.VERIFY, Mark.DOING)
    if not split or split & {s.id for s in node.snapshot().sandboxes if s.running}:
        raise LabError("the restart of the runtime has spared the agent's pod")
    run.notes.append("the agent's pod was lost")
    yield


def _web(run: FaultRun) -> ContainerInstance:
    return next(c for c in run.cluster.node.snapshot().running() if c.pod.startswith("workload/web-"))


# ── the task ────────────────────────────────────────────────────────────────────────────────────────────────────────


def task_deleted(step: Step, mark: Mark) -> Harm:
    """Delete the node's task in mid-run: the outcome must be reported all the same."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        run.wait_record(step, mark)
        run.cluster.lab.kubectl("delete", "nodeupgradetask", run.cluster.node.name, "--wait=false")
        yield
        status = run.cluster.task()["status"]
        counted = status.get("containers", {})
        run.notes.append(f"told: {status.get('phase')}, {counted}")
        if not counted.get("total", counted.get("unchanged", 0)):
            raise LabError(f"nothing is told of the containers: {status}")

    return harm


# ── the agent ───────────────────────────────────────────────────────────────────────────────────────────────────────


def agent_over_quota(run: FaultRun) -> Iterator[None]:
    """Let a quota forbid the agent's pod."""
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": NAMESPACE},
        "spec": {"hard": {"pods": "0"}},
    }  # fmt: skip
    run.cluster.lab.apply(quota)
    try:
        yield
        _told(run, "exceeded quota")
    finally:
        run.cluster.lab.kubectl("delete", "resourcequota", "-n", NAMESPACE, "none", "--ignore-not-found")
    yield


def agent_without_image(run: FaultRun) -> Iterator[None]:
    """Let the agent's image be missing on the node."""
    node, image = run.cluster.node, images.operator()
    for name in (image.pinned, image.tagged):
        node.runtime.remove_image(node.root, name)
    try:
        yield
        _told(run, "ImagePull")
    finally:
        deploy.import_pinned(run.cluster.lab, image, [node.name])
    yield


def agent_rejected(run: FaultRun) -> Iterator[None]:
    """Let the node's kubelet have no room for another pod: the run has not reached the node, so it is called off."""
    pods = len({s.pod for s in run.cluster.node.snapshot().sandboxes if s.running})
    change = changed(run.cluster.node, nodefiles.KUBELET_CONFIG, with_settings(maxPods=pods))
    with change:
        restart_kubelet(run.cluster.node)
        yield
        _told(run, "OutOfpods")
    restart_kubelet(run.cluster.node)
    yield


def _told(run: FaultRun, words: str) -> None:
    """Wait until the NodeUpgrade reports why there is no agent.

    Raises:
        LabError: it does not in time.
    """
    began = time.monotonic()
    reasons = ("AgentUnavailable", "AgentNotStarted")  # while it may still start, and when it is given up

    def told() -> bool:
        status = run.cluster.get(run.name).get("status", {})
        return any(reason in json.dumps(status) for reason in reasons) and words in json.dumps(status)

    wait_until(f"{' or '.join(reasons)} with {words!r}", told, timeout=TOLD_SECONDS, interval=0.5)
    run.notes.append(f"told after {time.monotonic() - began:.0f} s")
    stated = run.cluster.get(run.name)["status"]["conditions"]
    run.notes += [c["message"][:160] for c in stated if c["reason"] in reasons][:1]


def not_executable(run: FaultRun) -> Iterator[None]:
    """Forbid executing anything from where the bundle may be."""
    node, paths = run.cluster.node, tuple(map(str, PROGRAM_PLACES))
    for path in paths:
        node.exec("mkdir", "-p", path)
        node.exec("mount", "--bind", path, path)
        node.exec("mount", "-o", "remount,bind,noexec", path)
    try:
        yield
        yield
    finally:
        for path in paths:
            node.exec("umount", "--lazy", path, check=False)


def own_directory(step: Step, mark: Mark) -> Harm:
    """Remove all that runs keep on the disk, their programs included: plan and journal have to be there again."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        run.wait_record(step, mark)
        run.cluster.node.exec("rm", "-rf", *map(str, PROGRAM_PLACES), check=False)  # which the executor makes again
        yield

    return harm


def proxied(run: FaultRun) -> Iterator[None]:
    """Give every service of the node an HTTP proxy that does not answer."""
    node = run.cluster.node
    node.exec("systemctl", "set-environment", "http_proxy=http://127.0.0.1:9", "HTTP_PROXY=http://127.0.0.1:9")
    try:
        restart_kubelet(run.cluster.node)
        yield
        yield
    finally:
        node.exec("systemctl", "unset-environment", "http_proxy", "HTTP_PROXY")
        restart_kubelet(run.cluster.node)


def splits_pods(runtime: LabRuntime) -> bool:
    """Report whether it starts another shim where it does not reach the pod's: containerd 2 never does."""
    return runtime.shares_monitors and runtime.name != "containerd-2"


def keeps_names_apart(runtime: LabRuntime) -> bool:
    """Report whether an image's name can be taken away while containers of it run."""
    return runtime.name != "docker"


FAULTS: tuple[Fault, ...] = (
    Fault("lost/runtime-root", runtime_without_baseline, BACK, reboots=True, spec=PATIENT),
    Fault("lost/runtime-broken", runtime_cannot_start, BACK, spec=PATIENT),
    Fault("lost/runtime-silent", runtime_silent, BACK, spec=PATIENT),
    Fault("lost/paused", container_paused, UP, needs=is_containerd),
    Fault("lost/split-shim", split_shim, REFUSED, needs=splits_pods),
    Fault("lost/split-agent", split_agent, UP, needs=splits_pods),
    Fault("lost/task-settling", task_deleted(Step.VERIFY, Mark.DOING), UP),
    Fault("lost/task-without-kubelet", task_deleted(Step.STOP_KUBELET, Mark.DONE), EITHER),
    Fault("lost/agent-over-quota", agent_over_quota, UP),
    Fault("lost/agent-without-image", agent_without_image, UP, needs=keeps_names_apart),
    Fault("lost/agent-rejected", agent_rejected, frozenset({"Refused"})),
    Fault("lost/not-executable", not_executable, REFUSED),
    Fault("lost/own-directory", own_directory(Step.STOP_KUBELET, Mark.DONE), UP),
    Fault("lost/own-directory-settling", own_directory(Step.VERIFY, Mark.DOING), UP),
    Fault("lost/proxied", proxied, UP),
)
