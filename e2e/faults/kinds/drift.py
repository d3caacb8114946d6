"""Drift: changes on a node before or during a run that its next start would read.

A fault whose change must be refused then shows, as its control, what a plain restart would have done.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

from e2e import changes
from e2e.changes import KUBELET_UNIT, changed, restart_kubelet, restart_runtime, with_settings
from e2e.faults.fault import BACK, REFUSED, UP, Fault
from e2e.faults.run import TURN_BACK, FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.cluster.deploy import NAMESPACE
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until
from e2e.lab.runtimes import LabRuntime
from e2e.lab.workloads import workload
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark

OTHER_ROOT = "/var/lib/containers-other"

# ── the kubelet's configuration ─────────────────────────────────────────────────────────────────────────────────────


def kubelet_setting(**settings: object) -> Harm:
    """Change the kubelet's configuration file without restarting the kubelet; the control restarts it."""

    def harm(run: FaultRun) -> Iterator[None]:
        with changed(run.cluster.node, nodefiles.KUBELET_CONFIG, with_settings(**settings)):
            yield
            yield
            ran = _names(run, "Running")
            restart_kubelet(run.cluster.node)
            wait_until("a killed pod", lambda: ran & _names(run, "Failed", "Succeeded"), timeout=90, interval=1)
            run.cluster.node.settled(quiet=8)
            run.notes.append(f"control: a plain restart kills {len(ran & _names(run, 'Failed', 'Succeeded'))} pods")
        restart_kubelet(run.cluster.node)
        start_workload_again(run)

    return harm


def kubelet_settings_rewritten(run: FaultRun) -> Iterator[None]:
    """Change the kubelet's configuration file and restart the kubelet: that is no drift."""
    with changed(run.cluster.node, nodefiles.KUBELET_CONFIG, with_settings(maxPods=240)):
        restart_kubelet(run.cluster.node)
        yield
        yield
    restart_kubelet(run.cluster.node)


def environment_file(run: FaultRun) -> Iterator[None]:
    """Add a flag to the file from which the kubelet's unit reads its flags."""
    with changed(run.cluster.node, nodefiles.KUBELET_FLAGS, lambda text: text.rstrip('"\n') + ' --max-pods=3"\n'):
        yield
        yield


def _names(run: FaultRun, *phases: str) -> set[str]:
    """Return the node's pods in some phases.

    One that the kubelet rejects while its containers run is Failed at first, and Succeeded if they then exit with 0.
    """
    pods = run.cluster.lab.api.list("pods", fields=f"spec.nodeName={run.cluster.node.name}")
    return {pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") in phases}


def start_workload_again(run: FaultRun) -> None:
    """Replace the pods that a control has destroyed."""
    cluster = run.cluster
    here = f"--field-selector=spec.nodeName={cluster.node.name},status.phase!=Running"
    for namespace in (workload.NAMESPACE, NAMESPACE):
        cluster.lab.kubectl("delete", "pods", "-n", namespace, here, "--force", "--grace-period=0", timeout=120)
    count = sum(s.pod.startswith(f"{workload.NAMESPACE}/") and "static-web" not in s.pod for s in _sandboxes(run))
    workload.start(cluster.lab, workload.mixed_workload(count, cluster.node.name, kubelet=cluster.lab.spec.kubelet))
    workload.wait_running(cluster.lab, count=count, timeout=300)
    wait = ("-n", NAMESPACE, "rollout", "status", "deployment/nodeupgrade-operator")
    cluster.lab.kubectl_wait(*wait, timeout=120)


def _sandboxes(run: FaultRun) -> list[Any]:
    return [sandbox for sandbox in run.before.sandboxes if sandbox.running]


# ── the runtime's configuration ─────────────────────────────────────────────────────────────────────────────────────


def runtime_broken(run: FaultRun) -> Iterator[None]:
    """Break the runtime's configuration file; the control shows that the runtime cannot start with it."""
    node = run.cluster.node
    with broken_configuration(run):
        yield
        yield
        if node.exec(*node.runtime.prints_config, check=False).returncode == 0:
            raise LabError("control: the runtime reads its configuration: this proves nothing")
    restart_runtime(run.cluster.node)  # or the next fault would find a file written after the runtime's start


def runtime_root(run: FaultRun) -> Iterator[None]:
    """Give the runtime another root; the control shows, without a kubelet, that it comes back empty.

    containerd 1.6 has then forgotten its containers for good, so that the control costs all of them.
    """
    with other_root(run):
        yield
        yield
        run.cluster.node.exec("systemctl", "stop", "kubelet")
        restart_runtime(run.cluster.node)
        shown = len(run.cluster.node.snapshot().sandboxes)
        run.notes.append(f"control: after a restart the runtime shows {shown} sandboxes")
        if shown:
            raise LabError("control: the runtime is not empty: this proves nothing")
    run.cut_power_and_boot()
    run.wait_workload()


def runtime_root_in_mid_run(run: FaultRun) -> Iterator[None]:
    """Give the runtime another root after the node was examined and before the runtime is restarted."""
    with stopped_at(run, Step.REWRITE_HASHES, When.DONE):
        yield
        run.wait_hit(at(Step.REWRITE_HASHES, When.DONE))
        with other_root(run):
            run.release(at(Step.REWRITE_HASHES, When.DONE))
            yield
    restart_runtime(run.cluster.node)


def runtime_changed_and_restarted(run: FaultRun) -> Iterator[None]:
    """Let a tool write the runtime's configuration and restart it under the new kubelet; then the run turns back."""
    with run.armed(TURN_BACK, "enospc"):
        yield
        run.wait_record(Step.VERIFY, Mark.DOING)
        with changed(run.cluster.node, run.cluster.node.runtime.config, lambda text: f"{text}\n"):
            restart_runtime(run.cluster.node)
            yield
    restart_runtime(run.cluster.node)


def broken_configuration(run: FaultRun) -> contextlib.AbstractContextManager[None]:
    """Make the runtime's configuration unreadable."""
    return changed(run.cluster.node, run.cluster.node.runtime.config, lambda text: f"{text}\n[broken\n")


@contextlib.contextmanager
def other_root(run: FaultRun) -> Iterator[None]:
    """Set another root directory in the runtime's configuration."""
    runtime = run.cluster.node.runtime
    with changed(run.cluster.node, runtime.config, lambda text: runtime.with_root(text, OTHER_ROOT)):
        try:
            yield
        finally:
            run.cluster.node.exec("rm", "-rf", OTHER_ROOT, check=False)


# ── units, and tools that revert changes ────────────────────────────────────────────────────────────────────────────


def start_pre(line: str) -> Harm:
    """Make the kubelet's unit run something before each start of the kubelet."""

    def harm(run: FaultRun) -> Iterator[None]:
        keep_program(run)
        with drop_in(run, f"[Service]\nExecStartPre={line.format(old=kept(run))}\n"):
            restart_kubelet(run.cluster.node)
            yield
            yield

    return harm


def program_put_back(run: FaultRun) -> Iterator[None]:
    """Let a tool restore the old program between swap and start."""
    name = at(Step.SWAP_BINARY, When.DONE)
    keep_program(run)
    with stopped_at(run, Step.SWAP_BINARY, When.DONE):
        yield
        run.wait_hit(name)
        run.cluster.node.exec("cp", "--remove-destination", kept(run), nodefiles.KUBELET_BINARY)
        run.release(name)
        yield


def drop_in_put_there(run: FaultRun) -> Iterator[None]:
    """Let a tool write a drop-in that starts the old program under another name, between swap and start."""
    name = at(Step.SWAP_BINARY, When.DONE)
    keep_program(run)
    with stopped_at(run, Step.SWAP_BINARY, When.DONE), contextlib.ExitStack() as stack:
        yield
        run.wait_hit(name)
        command = f"{kept(run)} $KUBELET_FLAGS"
        stack.enter_context(drop_in(run, f"[Service]\nExecStart=\nExecStart={command}\n"))
        run.release(name)
        yield


def keep_program(run: FaultRun) -> None:
    """Keep the old program where a tool would take it from."""
    run.cluster.node.exec("mkdir", "-p", "/opt/tool")
    run.cluster.node.exec("cp", nodefiles.KUBELET_BINARY, kept(run))


def kept(run: FaultRun) -> str:
    """Return where the old program is kept."""
    return f"/opt/tool/kubelet-{run.old}"


@contextlib.contextmanager
def drop_in(run: FaultRun, text: str) -> Iterator[None]:
    """Install a drop-in of the kubelet's unit that systemd has read; at the end, the kubelet runs without it."""
    with changes.drop_in(run.cluster.node, KUBELET_UNIT, text):
        yield
    restart_kubelet(run.cluster.node)


@contextlib.contextmanager
def stopped_at(run: FaultRun, step: Step, when: When) -> Iterator[None]:
    """Let the executor hang at a failpoint, in a run whose budget allows for it."""
    with run.armed(at(step, when), "hang"):
        yield


def prints_config(runtime: LabRuntime) -> bool:
    """Report whether there is a control for a configuration that cannot be read."""
    return bool(runtime.prints_config)


PATIENT: dict[str, object] = {"verify": {"settle": "4s", "kubeletDownBudget": "90s"}}
WATCHED: dict[str, object] = {"verify": {"settle": "20s"}}
FAULTS: tuple[Fault, ...] = (
    Fault("drift/max-pods", kubelet_setting(maxPods=3), REFUSED),
    Fault("drift/system-reserved", kubelet_setting(systemReserved={"cpu": "1950m"}), REFUSED),
    Fault("drift/restarted", kubelet_settings_rewritten, UP),
    Fault("drift/environment-file", environment_file, REFUSED),
    Fault("drift/runtime-broken", runtime_broken, REFUSED, needs=prints_config),
    Fault("drift/runtime-root", runtime_root, REFUSED),
    Fault("drift/runtime-root-in-mid-run", runtime_root_in_mid_run, BACK, spec=PATIENT),
    Fault("drift/runtime-restarted-in-mid-run", runtime_changed_and_restarted, BACK, spec=WATCHED),
    Fault("unit/start-pre", start_pre("/bin/cp --remove-destination {old} /usr/bin/kubelet"), REFUSED),
    Fault("unit/start-pre-harmless", start_pre("/bin/mkdir -p /run/kubelet-of-somebody"), UP),
    Fault("tool/program", program_put_back, BACK, spec=PATIENT),
    Fault("tool/drop-in", drop_in_put_there, BACK, spec=PATIENT),
)
