"""What can happen to a node and to the cluster while a kubelet is being swapped, as things that can be done.

Each is a generator: what it does before its first ``yield`` prepares, then the NodeUpgrade is applied; what follows
does the harm; after the second ``yield`` the run is over and was judged, and things are put back in order.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from e2e.lab import LabError, components
from e2e.lab.deploy import DEPLOYMENT, NAMESPACE
from e2e.lab.process import wait_until
from e2e.ordeal import EXECUTOR, Ordeal
from nodeupgrade.domain.node.run.journal import Mark, Step

Harm = Callable[[Ordeal], Iterator[None]]
EITHER = frozenset({"Succeeded", "RolledBack"})
UP, BACK = frozenset({"Succeeded"}), frozenset({"RolledBack"})
AGENT = "app.kubernetes.io/name=nodeupgrade-agent"


@dataclass(frozen=True)
class Fault:
    """One thing that happens.

    Attributes:
        ends: phases of the task in which the run may end.
        reboots: whether the node's containers cannot survive it.
        spec: what is different in the NodeUpgrade.
    """

    name: str
    harm: Harm
    ends: frozenset[str] = EITHER
    reboots: bool = False
    spec: dict[str, object] = field(default_factory=dict)


# ── the executor ────────────────────────────────────────────────────────────────────────────────────────────────────


def kill_after_the_end(ordeal: Ordeal) -> Iterator[None]:
    """Kill the executor while it tidies up."""
    yield
    ordeal.wait_record(None, Mark.FINISHED)
    ordeal.kill_executor()
    yield


def kill_after_every_record(ordeal: Ordeal) -> Iterator[None]:
    """Kill the executor after whatever it writes."""
    yield
    ordeal.wait_record(Step.CONFIRM_BINARIES, Mark.DOING)
    seen = killed = 0
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        journal = ordeal.journal()
        if len(journal.records) > seen:
            seen = len(journal.records)
            killed += ordeal.kill_unit(EXECUTOR) > 0
        if journal.finished:
            break
        time.sleep(0.0005)
    ordeal.notes.append(f"killed {killed} times, {seen} records")
    yield


def kill_while_going_back(ordeal: Ordeal) -> Iterator[None]:
    """Let the run fail late, and kill the executor after every record of the way back."""
    yield
    ordeal.wait_record(Step.VERIFY, Mark.DOING)
    ordeal.kill_unit("kubelet.service")
    seen = len(ordeal.journal().records)
    killed = 0
    deadline = time.monotonic() + 240
    while not (journal := ordeal.journal()).finished and time.monotonic() < deadline:
        if len(journal.records) > seen:
            seen = len(journal.records)
            killed += ordeal.kill_unit(EXECUTOR) > 0
        time.sleep(0.0005)
    ordeal.notes.append(f"killed {killed} times, {seen} records")
    yield


def stop_executor(ordeal: Ordeal) -> Iterator[None]:
    """Stop the executor's unit, which systemd does not start again by itself: the timer has to."""
    yield
    ordeal.wait_record(Step.REWRITE_HASHES, Mark.DOING)
    ordeal.cluster.node.exec("systemctl", "stop", EXECUTOR)
    last = ordeal.journal().last
    ordeal.notes.append(f"stopped after {last.step} {last.mark}" if last else "stopped")
    yield


def cut_power_after(step: Step | None, mark: Mark) -> Harm:
    """Cut the node's power right after one journal record, and boot it."""

    def harm(ordeal: Ordeal) -> Iterator[None]:
        yield
        ordeal.wait_record(step, mark)
        ordeal.cut_power_and_boot()
        yield
        wait_workload(ordeal)

    return harm


def cut_power_twice(ordeal: Ordeal) -> Iterator[None]:
    """Cut the power with the kubelet down, and again while the way back has begun."""
    yield
    ordeal.wait_record(Step.SWAP_BINARY, Mark.DONE)
    ordeal.cut_power_and_boot()
    ordeal.wait_record(Step.REWRITE_HASHES, Mark.UNDOING)
    ordeal.cut_power_and_boot()
    yield
    wait_workload(ordeal)


def wait_workload(ordeal: Ordeal) -> None:
    """Wait until every pod runs again after the power was cut."""
    from e2e.lab import workload  # noqa: PLC0415 - only here

    pods = ordeal.cluster.lab.kubectl_json("get", "pods", "-n", workload.NAMESPACE)["items"]
    count = sum(pod["spec"].get("restartPolicy") == "Always" for pod in pods)
    workload.wait_running(ordeal.cluster.lab, count=count, timeout=240)
    wait = ordeal.cluster.lab.kubectl_wait
    wait("-n", NAMESPACE, "rollout", "status", f"deployment/{DEPLOYMENT}", timeout=120)


# ── the operator, the agent, the API server ─────────────────────────────────────────────────────────────────────────


def agent_deleted(ordeal: Ordeal) -> Iterator[None]:
    """Delete the agent pod without grace, twice: before the kubelet stops, and while it settles."""
    yield
    here = f"--field-selector=spec.nodeName={ordeal.cluster.node.name}"
    delete = ("delete", "pod", "-n", NAMESPACE, "-l", AGENT, here, "--force", "--grace-period=0", "--wait=false")
    wait_until("the agent pod", lambda: phase(ordeal) in {"Staging", "Prechecking", "Running"}, timeout=120)
    ordeal.cluster.lab.kubectl(*delete)
    ordeal.wait_record(Step.VERIFY, Mark.DOING)
    ordeal.cluster.lab.kubectl(*delete)
    yield


def agent_killed(ordeal: Ordeal) -> Iterator[None]:
    """Kill the agent's processes while the kubelet is down."""
    yield
    ordeal.wait_record(Step.STOP_KUBELET, Mark.DONE)
    node = ordeal.cluster.node
    agents = [c for c in node.snapshot().running() if c.pod.startswith(f"{NAMESPACE}/nodeupgrade-agent")]
    for container in agents:
        node.exec("kill", "-9", str(container.pid))
    ordeal.notes.append(f"{len(agents)} agent containers killed")
    yield


def operator_deleted(ordeal: Ordeal) -> Iterator[None]:
    """Delete the operator's pod, first when the node is cordoned and again in the middle of the run."""
    ordeal.free.add(f"{NAMESPACE}/{DEPLOYMENT}")
    yield
    delete = ("delete", "pod", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=nodeupgrade-operator", "--wait=false")
    wait_until("a cordon", lambda: not ordeal.cluster.schedulable(), timeout=60, interval=0.05)
    told = ordeal.cluster.lab.kubectl(*delete).stdout
    ordeal.notes.append(f"{told.count('deleted')} pods deleted")
    yield


def operator_killed(ordeal: Ordeal) -> Iterator[None]:
    """Kill the operator's process while the kubelet is down: nothing restarts it before the run is through."""
    ordeal.free.add(f"{NAMESPACE}/{DEPLOYMENT}")
    yield
    node = ordeal.cluster.node
    victims = [c for c in node.snapshot().running() if c.pod.startswith(f"{NAMESPACE}/{DEPLOYMENT}")]
    if not victims:
        raise LabError(f"the operator does not run on {node.name}: this proves nothing")
    ordeal.wait_record(Step.VERIFY, Mark.DONE)
    for container in victims:
        node.exec("kill", "-9", str(container.pid))
    ordeal.notes.append(f"{len(victims)} containers killed")
    yield


def api_away(seconds: float, *, to_the_end: bool = False) -> Harm:
    """Stop kube-apiserver once the kubelet stops, for a while or until the run is through."""

    def harm(ordeal: Ordeal) -> Iterator[None]:
        yield
        step = Step.CONFIRM_BINARIES if to_the_end else Step.STOP_KUBELET
        ordeal.wait_record(step, Mark.DOING)
        with _without_apiserver(ordeal):
            began = time.monotonic()
            if to_the_end:
                ordeal.wait_record(None, Mark.FINISHED)
            time.sleep(seconds)
            ordeal.notes.append(f"API server away for {time.monotonic() - began:.0f} s")
        yield

    return harm


@contextlib.contextmanager
def _without_apiserver(ordeal: Ordeal) -> Iterator[None]:
    lab = ordeal.cluster.lab
    version = lab.spec.control_plane
    binaries = {name: components.resolve(name, version) for name in components.CONTROL_PLANE}
    lab.control_plane.stop("kube-apiserver")
    try:
        yield
    finally:
        lab.control_plane.start_again("kube-apiserver", binaries)
        wait_until("the API server", lambda: lab.kubectl("get", "--raw", "/readyz", timeout=10).stdout == "ok", 120)


# ── the node ────────────────────────────────────────────────────────────────────────────────────────────────────────


def runtime_killed(ordeal: Ordeal) -> Iterator[None]:
    """Kill containerd in the middle of the rewriting; systemd brings it back some seconds later."""
    yield
    ordeal.wait_record(Step.REWRITE_HASHES, Mark.DOING)
    ordeal.notes.append(f"{_kill_runtime(ordeal, signal.SIGKILL)} processes killed")
    yield


def runtime_slow(seconds: float, step: Step) -> Harm:
    """Stop containerd from answering for a while, from a step on; where it is restarted, the new one."""

    def harm(ordeal: Ordeal) -> Iterator[None]:
        yield
        old = ordeal.processes("containerd.service", "containerd") if step is Step.RESTART_RUNTIME else set()
        ordeal.wait_record(step, Mark.DOING)
        wait_until(
            "the runtime",
            lambda: ordeal.processes("containerd.service", "containerd") - old,
            timeout=60,
            interval=0.002,
        )
        _kill_runtime(ordeal, signal.SIGSTOP)
        try:
            time.sleep(seconds)
            last = ordeal.journal().last
            ordeal.notes.append(f"stopped during {last.step} {last.mark}" if last else "")
        finally:
            _kill_runtime(ordeal, signal.SIGCONT)
        yield

    return harm


def _kill_runtime(ordeal: Ordeal, number: int) -> int:
    """Send a signal to containerd alone, whose shims share its cgroup."""
    return ordeal.kill_unit("containerd.service", number, program="containerd")


def disk_full(ordeal: Ordeal) -> Iterator[None]:
    """Let the file system of our own state run full while the kubelet is down."""
    node = ordeal.cluster.node
    node.exec("mount", "-t", "tmpfs", "-o", "size=220m", "tmpfs", "/var/lib/nodeupgrade")
    try:
        yield
        ordeal.wait_record(Step.STOP_KUBELET, Mark.DOING)
        filled = node.exec("dd", "if=/dev/zero", "of=/var/lib/nodeupgrade/ballast", "bs=64k", check=False)
        last = ordeal.journal().last
        ordeal.notes.append(f"full ({'No space' in filled.stderr}) after {last.step} {last.mark}" if last else "")
        yield
    finally:
        node.exec("umount", "--lazy", "/var/lib/nodeupgrade", check=False)


def disk_full_before(ordeal: Ordeal) -> Iterator[None]:
    """Let there be no room for our state from the start."""
    node = ordeal.cluster.node
    node.exec("mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", "/var/lib/nodeupgrade")
    try:
        yield
        yield
    finally:
        node.exec("umount", "--lazy", "/var/lib/nodeupgrade", check=False)


def kubelet_started_by_hand(ordeal: Ordeal) -> Iterator[None]:
    """Start and restart the kubelet by hand again and again while it is fenced."""
    yield
    ordeal.wait_record(Step.STOP_KUBELET, Mark.DONE)
    tries = refused = 0
    while not ordeal.journal().first(Step.START_KUBELET, Mark.DOING) and not ordeal.journal().finished:
        tries += 1
        verb = "start" if tries % 2 else "restart"
        refused += ordeal.cluster.node.exec("systemctl", verb, "kubelet", check=False).returncode != 0
    ordeal.notes.append(f"{refused} of {tries} starts refused")
    yield


def kubelet_killed(step: Step, mark: Mark) -> Harm:
    """Kill the kubelet's process, which systemd starts again."""

    def harm(ordeal: Ordeal) -> Iterator[None]:
        yield
        ordeal.wait_record(step, mark)
        ordeal.notes.append(f"{ordeal.kill_unit('kubelet.service')} killed")
        yield

    return harm


def phase(ordeal: Ordeal) -> str:
    with contextlib.suppress(LabError):
        return str(ordeal.cluster.task().get("status", {}).get("phase", ""))
    return ""


FAULTS: tuple[Fault, ...] = (
    Fault("none", lambda _ordeal: iter((None, None)), UP),
    Fault("kill/finished", kill_after_the_end),
    Fault("kill/every-record", kill_after_every_record, spec={"verify": {"settle": "4s", "kubeletDownBudget": "150s"}}),
    Fault("kill/going-back", kill_while_going_back, BACK),
    Fault("kill/systemctl-stop", stop_executor),
    Fault("power/committed", cut_power_after(Step.VERIFY, Mark.DONE), frozenset({"Succeeded", "Failed"}), reboots=True),
    Fault("power/finished", cut_power_after(None, Mark.FINISHED), UP, reboots=True),
    Fault("power/twice", cut_power_twice, BACK, reboots=True),
    Fault("agent/deleted", agent_deleted),
    Fault("agent/killed", agent_killed),
    Fault("operator/deleted", operator_deleted),
    Fault("operator/killed", operator_killed),
    Fault("api/30s", api_away(30)),
    Fault("api/to-the-end", api_away(5, to_the_end=True)),
    Fault("runtime/killed", runtime_killed),
    Fault("runtime/slow-rewriting", runtime_slow(8, Step.REWRITE_HASHES)),
    Fault("runtime/slow-restart", runtime_slow(8, Step.RESTART_RUNTIME)),
    Fault("runtime/slow-settling", runtime_slow(8, Step.VERIFY)),
    Fault("disk/full", disk_full),
    Fault("disk/full-before", disk_full_before, frozenset({"Refused", "Failed"})),
    Fault("kubelet/started-by-hand", kubelet_started_by_hand),
    Fault("kubelet/killed-while-settling", kubelet_killed(Step.VERIFY, Mark.DOING), BACK),
    Fault("kubelet/killed-before", kubelet_killed(Step.CONFIRM_BINARIES, Mark.DOING)),
)
