"""What happens at a failpoint: at exactly one point of a run, whatever the machine's load."""

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import PurePosixPath

from e2e.faults import along
from e2e.faults.fault import BACK, UP, Fault
from e2e.faults.run import TURN_BACK, FaultRun, Harm, on_the_way_back
from e2e.lab import LabError
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload
from nodeupgrade import bundle
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import (
    FAILPOINTS,
    FIRST_PUT_BACK,
    FIRST_RESTORED,
    FIRST_REWRITTEN,
    RUNTIME_RESTARTED,
    Failpoint,
    When,
    at,
)
from nodeupgrade.node.node import LEASE_KEEPER


def struck(name: Failpoint, action: str) -> Harm:
    """Let one failpoint strike; if it is in the rollback, let the run fail at the last step."""

    def harm(run: FaultRun) -> Iterator[None]:
        with run.armed(name, action):
            yield
            run.wait_hit(name)
            yield

    return harm


def power_cut_at(name: Failpoint) -> Harm:
    """Cut the node's power while the executor hangs at a failpoint."""

    def harm(run: FaultRun) -> Iterator[None]:
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            run.cut_power_and_boot()
            yield
            run.wait_workload()

    return harm


def bundle_lost_at(name: Failpoint) -> Harm:
    """Remove the bundle at a failpoint, then kill agent and executor: no Python is left, and nothing to bring one."""

    def harm(run: FaultRun) -> Iterator[None]:
        node = run.cluster.node
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            lose_bundle(run)
            run.kill_executor()
            began = time.monotonic()
            wait_until("a kubelet", node.kubelet_healthy, timeout=120, interval=0.05)
            run.notes.append(f"a kubelet after {time.monotonic() - began:.1f} s")
            yield

    return harm


def everything_lost_at(name: Failpoint) -> Harm:
    """Remove both copies of the bundle, too: only the shell is left."""

    def harm(run: FaultRun) -> Iterator[None]:
        lost = bundle_lost_at(name)(run)
        yield next(lost)
        run.wait_hit(name)
        run.cluster.node.exec("rm", "-rf", str(SPARES))
        yield next(lost)
        next(lost, None)

    return harm


def named_oddly(harm: Harm) -> Harm:
    """Have a process on the node whose name is several lines, and looks like the end of a line in /proc."""

    def with_pod(run: FaultRun) -> Iterator[None]:
        script = "printf 'a\\n0) Z 1' > /proc/self/comm; trap 'exit 0' TERM; while :; do sleep 0.2; done"
        workload.start_pod(run.cluster.lab, ODD, script, node=run.cluster.node.name)
        try:
            yield from harm(run)
        finally:
            run.cluster.lab.kubectl("delete", "pod", "-n", workload.NAMESPACE, ODD, timeout=120)

    return with_pod


def run_directory_full(harm: Harm) -> Harm:
    """Leave no byte in /run while the executor is lost."""

    def with_limit(run: FaultRun) -> Iterator[None]:
        lost, node = harm(run), run.cluster.node
        yield next(lost)
        run.wait_hit(FULL_AT)
        with node.full_run():  # no longer: systemd can neither reload nor clean up
            filled = node.exec("dd", "if=/dev/zero", "of=/run/ballast", "bs=4k", "count=4096", check=False)
            if "No space" not in filled.stderr:
                raise LabError(f"/run is not full: {filled.stderr[-200:]}")
            next(lost)  # until a kubelet is back
        node.exec("rm", "-f", "/run/ballast")
        yield
        next(lost, None)

    return with_limit


def prepared(name: Failpoint, harm: Harm) -> Harm:
    """Let a run that is to be disturbed where files are exchanged, or a package is held, have some."""
    if name.startswith(f"{Step.HOLD_PACKAGE}."):
        return along.owning(harm)
    return along.carrying(harm) if name.startswith(f"{Step.SWAP_FILES}.") else harm


def agents_of(run: FaultRun) -> list[int]:
    """Return the processes of the node's agent, in the node; the runtime, which may be stopped, is not asked."""
    found = []
    for place in (run.cluster.node.root / "proc").glob("[0-9]*"):
        with suppress(OSError):
            in_pod = "kubepods" in (place / "cgroup").read_text()
            if in_pod and b"nodeupgrade.node.agent" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


def lose_bundle(run: FaultRun) -> None:
    """Remove the bundle, and kill the agent, which would bring it again."""
    node = run.cluster.node
    agents = agents_of(run)
    node.exec("rm", "-rf", "/var/lib/nodeupgrade/bundles")
    for agent in agents:
        node.exec("kill", "-9", str(agent))


def runtime_killed_at(name: Failpoint) -> Harm:
    """Kill the runtime while the executor hangs at a failpoint; systemd restarts it."""

    def harm(run: FaultRun) -> Iterator[None]:
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            count = run.kill_runtime()
            run.release(name)
            run.notes.append(f"{count} killed")
            yield

    return harm


def second_executor(run: FaultRun) -> Iterator[None]:
    """Start another executor by hand while one is running."""
    name, node = at(Step.READ_BACK, When.DONE), run.cluster.node
    with run.armed(name, "hang"):
        yield
        run.wait_hit(name)
        before = len(run.journal().records)
        root = BUNDLES / node.exec("ls", str(BUNDLES)).stdout.split()[0]
        told = node.exec(*bundle.command(root, bundle.EXECUTOR), timeout=60)
        if len(run.journal().records) != before or "executor_busy" not in told.stderr:
            raise LabError(f"the second executor did not leave the run to the first: {told.stderr[-300:]}")
        run.notes.append("the second one left")
        run.release(name)
        yield


def immutable_program(run: FaultRun) -> Iterator[None]:
    """Make the kubelet's program immutable: the kubelet must not even be stopped."""
    node = run.cluster.node
    node.exec("chattr", "+i", "/usr/bin/kubelet")
    pid = node.exec("systemctl", "show", "kubelet", "--property=MainPID").stdout
    try:
        yield
        yield
        if node.exec("systemctl", "show", "kubelet", "--property=MainPID").stdout != pid:
            raise LabError("the kubelet was stopped")
    finally:
        node.exec("chattr", "-i", "/usr/bin/kubelet")


def long_window(seconds: float, *, keeper: bool) -> Harm:
    """Keep the node without a kubelet for long, with or without a lease keeper."""

    def harm(run: FaultRun) -> Iterator[None]:
        name = at(Step.READ_BACK, When.DONE)
        with run.armed(name, "hang"):
            yield
            run.wait_hit(name)
            if not keeper:
                run.cluster.node.exec("systemctl", "stop", LEASE_KEEPER)
            oldest, ready = _watch_lease(run, seconds)
            run.release(name)
            run.notes.append(f"Lease at most {oldest:.0f} s old, Ready was {' and '.join(sorted(ready))}")
            if printed := _printed(run):
                run.notes.append(f"its credentials were printed {printed} times")
            if keeper and (oldest > KEPT_SECONDS or ready != {"True"}):
                raise LabError("the Lease was not kept")
            if not keeper and (oldest < seconds - 15 or "Unknown" not in ready):
                raise LabError("the Lease was kept by somebody: this proves nothing about the keeper")
            yield

    return harm


def _printed(run: FaultRun) -> int:
    """Return how often the last keeper had the kubelet's credentials printed, where a program prints them."""
    log = run.cluster.node.exec("journalctl", "--output=cat", f"--unit={LEASE_KEEPER}").stdout
    return log.rpartition("Started ")[2].count("credentials_printed")


def _watch_lease(run: FaultRun, seconds: float) -> tuple[float, set[str]]:
    """Return the greatest age of the node's Lease, and every status of its condition Ready."""
    lab, name = run.cluster.lab, run.cluster.node.name
    oldest, ready = 0.0, set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        renewed = datetime.fromisoformat(lab.api.get("leases", name, namespace="kube-node-lease")["spec"]["renewTime"])
        oldest = max(oldest, (datetime.now(UTC) - renewed).total_seconds())
        ready |= {c["status"] for c in run.cluster.node_object()["status"]["conditions"] if c["type"] == "Ready"}
        time.sleep(1)
    return oldest, ready


SPARES = PurePosixPath("/var/lib/nodeupgrade/spare")
ODD = "named-oddly"
FULL_AT = at(Step.STOP_KUBELET, When.DONE)
BUNDLES = PurePosixPath("/var/lib/nodeupgrade/bundles")
KEPT_SECONDS = 20.0
LONG: dict[str, object] = {"verify": {"settle": "4s", "kubeletDownBudget": "150s"}}
FORWARD = tuple(name for name in FAILPOINTS if not on_the_way_back(name))
BACKWARD = tuple(name for name in FAILPOINTS if on_the_way_back(name))
# With the kubelet down; a running kubelet restarts the agent, and the agent restores a bundle.
DOWN = (
    at(Step.STOP_KUBELET, When.DONE), at(Step.PIN_STATIC_PODS, When.DONE), FIRST_REWRITTEN,
    at(Step.REWRITE_HASHES, When.DONE), RUNTIME_RESTARTED, at(Step.READ_BACK, When.DONE),
    at(Step.SWAP_FILES, When.DONE), at(Step.SWAP_BINARY, When.DONE), at(Step.START_KUBELET, When.ANNOUNCED),
    at(Step.START_KUBELET, When.UNDONE), FIRST_PUT_BACK, FIRST_RESTORED,
    at(Step.PIN_STATIC_PODS, When.UNDOING), at(Step.STOP_KUBELET, When.UNDOING),
)  # fmt: skip
FAULTS: tuple[Fault, ...] = (
    Fault("executor/second", second_executor, UP),
    Fault("kubelet/immutable", immutable_program, BACK | {"Failed", "Refused"}),
    Fault("runtime/killed-rewritten", runtime_killed_at(at(Step.REWRITE_HASHES, When.DONE))),
    *(Fault(f"rescue/{name}", prepared(name, bundle_lost_at(name)), BACK) for name in DOWN),
    *(Fault(f"rescue/both-{name}", everything_lost_at(name), BACK) for name in DOWN[:2]),
    Fault("rescue/full", run_directory_full(bundle_lost_at(FULL_AT)), BACK),
    Fault("rescue/full-both", run_directory_full(everything_lost_at(FULL_AT)), BACK),
    Fault("rescue/odd-name", named_oddly(bundle_lost_at(at(Step.SWAP_BINARY, When.DONE))), BACK),
    Fault("lease/kept", long_window(70, keeper=True), UP, spec=LONG),
    Fault("lease/control", long_window(70, keeper=False), UP, spec=LONG),
    *(Fault(f"at/{name}/kill", prepared(name, struck(name, "kill")), UP) for name in FORWARD),
    *(Fault(f"at/{name}/kill", prepared(name, struck(name, "kill")), BACK) for name in BACKWARD),
    *(
        Fault(f"at/{name}/enospc", prepared(name, struck(name, "enospc")), BACK)
        for name in FAILPOINTS
        if name != TURN_BACK
    ),
    *(Fault(f"power/{name}", prepared(name, power_cut_at(name)), BACK, reboots=True) for name in FAILPOINTS),
)
