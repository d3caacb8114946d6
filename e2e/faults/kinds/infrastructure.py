"""What an upgrade depends on goes away or is slow: operator, agent, runtime, disk, kubelet."""

import signal
import time
from collections.abc import Iterator

from e2e.faults.along import carrying
from e2e.faults.failing_disk import FailingDisk
from e2e.faults.fault import BACK, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.cluster.deploy import DEPLOYMENT, NAMESPACE
from e2e.lab.process import wait_until
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark

READ_ONLY_AT = at(Step.SWAP_BINARY, When.DONE)
RELOADS_AT = at(Step.SWAP_FILES, When.UNDOING)
RECORDED_LATER_SECONDS = 10.0
AGENT = "app.kubernetes.io/name=nodeupgrade-agent"

# ── the operator, the agent ─────────────────────────────────────────────────────────────────────────────────────────


def agent_deleted(run: FaultRun) -> Iterator[None]:
    """Delete the agent pod without grace, twice: before the kubelet stops, and in the settle period."""
    yield
    here = f"--field-selector=spec.nodeName={run.cluster.node.name}"
    delete = ("delete", "pod", "-n", NAMESPACE, "-l", AGENT, here, "--force", "--grace-period=0", "--wait=false")
    wait_until("the agent pod", lambda: run.phase() in {"Staging", "Prechecking", "Running"}, timeout=120)
    run.cluster.lab.kubectl(*delete)
    run.wait_record(Step.VERIFY, Mark.DOING)
    run.cluster.lab.kubectl(*delete)
    yield


def agent_killed(run: FaultRun) -> Iterator[None]:
    """Kill the agent's processes while the kubelet is down."""
    yield
    run.wait_record(Step.STOP_KUBELET, Mark.DONE)
    node = run.cluster.node
    agents = [c for c in node.snapshot().running() if c.pod.startswith(f"{NAMESPACE}/nodeupgrade-agent")]
    for container in agents:
        node.exec("kill", "-9", str(container.pid))
    run.notes.append(f"{len(agents)} agent containers killed")
    yield


def operator_deleted(run: FaultRun) -> Iterator[None]:
    """Delete the operator's pod, first when the node is cordoned and again in the middle of the run."""
    run.free.add(f"{NAMESPACE}/{DEPLOYMENT}")
    yield
    delete = ("delete", "pod", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=nodeupgrade-operator", "--wait=false")
    wait_until("a cordon", lambda: not run.cluster.schedulable(), timeout=60, interval=0.05)
    told = run.cluster.lab.kubectl(*delete).stdout
    run.notes.append(f"{told.count('deleted')} pods deleted")
    yield


def operator_killed(run: FaultRun) -> Iterator[None]:
    """Kill the operator's process while the kubelet is down: nothing restarts it before the run has ended."""
    run.free.add(f"{NAMESPACE}/{DEPLOYMENT}")
    yield
    node = run.cluster.node
    victims = [c for c in node.snapshot().running() if c.pod.startswith(f"{NAMESPACE}/{DEPLOYMENT}")]
    if not victims:
        raise LabError(f"the operator does not run on {node.name}: this proves nothing")
    run.wait_record(Step.VERIFY, Mark.DONE)
    for container in victims:
        node.exec("kill", "-9", str(container.pid))
    run.notes.append(f"{len(victims)} containers killed")
    yield


# ── the node ────────────────────────────────────────────────────────────────────────────────────────────────────────


def runtime_killed(run: FaultRun) -> Iterator[None]:
    """Kill the runtime in the middle of the rewriting; systemd restarts it some seconds later."""
    yield
    run.wait_record(Step.REWRITE_HASHES, Mark.DOING)
    run.notes.append(f"{_kill_runtime(run, signal.SIGKILL)} processes killed")
    yield


def runtime_slow(seconds: float, step: Step) -> Harm:
    """Stop the runtime from answering for a while, from a step on; if it is restarted, the new process."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        old = run.processes_of_runtime() if step is Step.RESTART_RUNTIME else set()
        run.wait_record(step, Mark.DOING)
        wait_until(
            "the runtime",
            lambda: run.processes_of_runtime() - old,
            timeout=60,
            interval=0.002,
        )
        _kill_runtime(run, signal.SIGSTOP)
        try:
            time.sleep(seconds)
            last = run.journal().last
            run.notes.append(f"stopped during {last.step} {last.mark}" if last else "")
        finally:
            _kill_runtime(run, signal.SIGCONT)
        yield

    return harm


def _kill_runtime(run: FaultRun, number: int) -> int:
    """Send a signal to the runtime alone, whose shims may share its cgroup."""
    return run.kill_runtime(number)


def disk_full(run: FaultRun) -> Iterator[None]:
    """Fill the file system of our own state while the kubelet is down."""
    node = run.cluster.node
    node.exec("mkdir", "--parents", "/var/lib/nodeupgrade")  # there may have been no run before
    node.exec("mount", "-t", "tmpfs", "-o", "size=220m", "tmpfs", "/var/lib/nodeupgrade")
    try:
        yield
        run.wait_record(Step.STOP_KUBELET, Mark.DOING)
        filled = node.exec("dd", "if=/dev/zero", "of=/var/lib/nodeupgrade/ballast", "bs=64k", check=False)
        last = run.journal().last
        run.notes.append(f"full ({'No space' in filled.stderr}) after {last.step} {last.mark}" if last else "")
        yield
    finally:
        node.exec("umount", "--lazy", "/var/lib/nodeupgrade", check=False)


def disk_read_only(run: FaultRun) -> Iterator[None]:
    """Have the file system of our own state turn read-only while the kubelet is down: the old one is back in time.

    As file systems do after an error of their disk, whoever has files open. Only a reboot repairs that.
    """
    node = run.cluster.node
    with FailingDisk.mounted(node, "/var/lib/nodeupgrade") as disk, run.armed(READ_ONLY_AT, "hang"):
        yield
        run.wait_hit(READ_ONLY_AT)
        disk.fail()
        run.release(READ_ONLY_AT)
        began = time.monotonic()
        wait_until("a kubelet", node.kubelet_healthy, timeout=60, interval=0.05)
        run.notes.append(f"a kubelet after {time.monotonic() - began:.1f} s")
        time.sleep(RECORDED_LATER_SECONDS)
        if run.journal().finished or not node.kubelet_healthy():
            raise LabError("the journal was written, or the kubelet has not stayed: this proves nothing")
        node.power_cut()
        disk.repair()
        node.boot()
        yield


def disk_full_before(run: FaultRun) -> Iterator[None]:
    """Leave no room for our state from the start."""
    node = run.cluster.node
    node.exec("mkdir", "--parents", "/var/lib/nodeupgrade")  # there may have been no run before
    node.exec("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", "/var/lib/nodeupgrade")
    try:
        yield
        yield
    finally:
        node.exec("umount", "--lazy", "/var/lib/nodeupgrade", check=False)


def run_directory_full_on_the_way_back(run: FaultRun) -> Iterator[None]:
    """Leave no byte in /run on the way back of a run that has exchanged a file of systemd, until it is over."""
    with run.armed(RELOADS_AT, "hang"):
        yield
        run.wait_hit(RELOADS_AT)
        with run.cluster.node.full_run():
            run.release(RELOADS_AT)
            run.wait_record(None, Mark.FINISHED)
        yield


def kubelet_started_by_hand(run: FaultRun) -> Iterator[None]:
    """Start and restart the kubelet by hand again and again while it is fenced."""
    yield
    run.wait_record(Step.STOP_KUBELET, Mark.DONE)
    tries = refused = 0
    while not run.journal().first(Step.START_KUBELET, Mark.DOING) and not run.journal().finished:
        tries += 1
        verb = "start" if tries % 2 else "restart"
        refused += run.cluster.node.exec("systemctl", verb, "kubelet", check=False).returncode != 0
    run.notes.append(f"{refused} of {tries} starts refused")
    yield


def kubelet_killed(step: Step, mark: Mark) -> Harm:
    """Kill the kubelet's process, which systemd restarts."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        run.wait_record(step, mark)
        run.notes.append(f"{run.kill_unit('kubelet.service')} killed")
        yield

    return harm


FAULTS: tuple[Fault, ...] = (
    Fault("agent/deleted", agent_deleted),
    Fault("agent/killed", agent_killed),
    Fault("operator/deleted", operator_deleted),
    Fault("operator/killed", operator_killed),
    Fault("runtime/killed", runtime_killed),
    Fault("runtime/slow-rewriting", runtime_slow(8, Step.REWRITE_HASHES)),
    Fault("runtime/slow-restart", runtime_slow(8, Step.RESTART_RUNTIME)),
    Fault("runtime/slow-settling", runtime_slow(8, Step.VERIFY)),
    Fault("disk/full", disk_full, spec={"preflight": {"accept": ["run_outlives_a_boot"]}}),
    Fault(
        "disk/read-only", disk_read_only, BACK, reboots=True, spec={"preflight": {"accept": ["run_outlives_a_boot"]}}
    ),
    Fault("disk/full-before", disk_full_before, frozenset({"Refused", "Failed"})),
    Fault("disk/run-full-on-the-way-back", carrying(run_directory_full_on_the_way_back), BACK),
    Fault("kubelet/started-by-hand", kubelet_started_by_hand),
    Fault("kubelet/killed-while-settling", kubelet_killed(Step.VERIFY, Mark.DOING), BACK),
    Fault("kubelet/killed-before", kubelet_killed(Step.CONFIRM_BINARIES, Mark.DOING)),
)
