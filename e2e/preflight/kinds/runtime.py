"""The container runtime, and what its restart would bring to light."""

import contextlib
from collections.abc import Callable, Iterator

from e2e import pods
from e2e.changes import added, changed, drop_in, restart_runtime
from e2e.cluster import Cluster, Object
from e2e.faults import tamper
from e2e.lab.nodes import nodefiles
from e2e.lab.workloads import splitpods
from e2e.preflight.kinds.pods import having
from e2e.preflight.row import WARNED, Hazard, Row

DRIFT = "RuntimeConfigurationDrift"
PROGRAM = "/usr/bin/containerd"
BOUND = "/etc/systemd/system/lab-bound.service"
FAILING = "/etc/systemd/system/lab-failing.service"
PROXY = "lab-proxy"


def configuration(change: Callable[[str], str]) -> Hazard:
    """Change containerd's configuration on the disk only."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with changed(cluster.node, cluster.node.runtime.config, change):
            yield {}
        restart_runtime(cluster.node)

    return make


def unit(name: str, *lines: str) -> Hazard:
    """Give a unit a drop-in that systemd has read, and nothing was restarted for."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with drop_in(cluster.node, name, "\n".join(("[Service]", *lines, ""))):
            yield {}
        if name.startswith("containerd"):
            restart_runtime(cluster.node)

    return make


@contextlib.contextmanager
def logs_elsewhere(cluster: Cluster) -> Iterator[Object]:
    """Let the runtime log nowhere, from its start on."""
    with drop_in(cluster.node, "containerd.service", "[Service]\nStandardOutput=null\nStandardError=null\n"):
        restart_runtime(cluster.node)
        yield {}
    restart_runtime(cluster.node)


@contextlib.contextmanager
def another_build(cluster: Cluster) -> Iterator[Object]:
    """Put another build of the same version in the place of the program that runs."""
    node = cluster.node
    node.exec("cp", "--preserve", PROGRAM, f"{PROGRAM}.kept")
    node.exec("cp", "--preserve", PROGRAM, f"{PROGRAM}.built")
    node.exec("sh", "-c", f"echo >> {PROGRAM}.built; touch -r {PROGRAM} {PROGRAM}.built")
    node.exec("mv", f"{PROGRAM}.built", PROGRAM)
    try:
        yield {}
    finally:
        node.exec("mv", f"{PROGRAM}.kept", PROGRAM)
        restart_runtime(node)


@contextlib.contextmanager
def bound(cluster: Cluster) -> Iterator[Object]:
    """Run a service that systemd restarts together with the runtime."""
    node, text = cluster.node, "[Unit]\nPartOf=containerd.service\n[Service]\nExecStart=/bin/sleep infinity\n"
    with added(node, BOUND, text):
        node.exec("systemctl", "daemon-reload")
        node.exec("systemctl", "start", "lab-bound")
        try:
            yield {}
        finally:
            node.exec("systemctl", "stop", "lab-bound")
    node.exec("systemctl", "daemon-reload")


@contextlib.contextmanager
def requiring_failed(cluster: Cluster) -> Iterator[Object]:
    """Let the kubelet require a service that has failed, which it runs on without."""
    node = cluster.node
    with added(node, FAILING, "[Service]\nType=oneshot\nExecStart=/bin/false\n"):
        node.exec("systemctl", "daemon-reload")
        node.exec("sh", "-c", "systemctl start lab-failing || true")
        try:
            with drop_in(node, "kubelet.service", "[Unit]\nRequires=lab-failing.service\nAfter=lab-failing.service\n"):
                yield {}
        finally:
            node.exec("systemctl", "reset-failed", "lab-failing")
    node.exec("systemctl", "daemon-reload")


@contextlib.contextmanager
def proxied(cluster: Cluster) -> Iterator[Object]:
    """Put a proxy in front of the runtime's socket."""
    node, socket = cluster.node, nodefiles.CONTAINERD_SOCKET
    units = f"/etc/systemd/system/{PROXY}"
    listening = f"[Socket]\nListenStream={socket}\n"
    passing = f"[Service]\nExecStart=/lib/systemd/systemd-socket-proxyd {socket}.real\n"
    with added(node, f"{units}.socket", listening), added(node, f"{units}.service", passing):
        node.exec("systemctl", "daemon-reload")
        node.exec("mv", socket, f"{socket}.real")
        node.exec("systemctl", "start", f"{PROXY}.socket")
        try:
            yield {}
        finally:
            node.exec("systemctl", "stop", f"{PROXY}.socket", f"{PROXY}.service")
            node.exec("mv", f"{socket}.real", socket)
    node.exec("systemctl", "daemon-reload")


@contextlib.contextmanager
def mounted_socket(cluster: Cluster) -> Iterator[Object]:
    """Make the runtime's socket a mount point, which nothing can take the place of."""
    socket = nodefiles.CONTAINERD_SOCKET
    cluster.node.exec("mount", "--bind", socket, socket)
    try:
        yield {}
    finally:
        cluster.node.exec("umount", socket)


@contextlib.contextmanager
def stored_otherwise(cluster: Cluster) -> Iterator[Object]:
    """Change a stored hash that the runtime goes on to serve as it was."""
    victim = next(c for c in cluster.node.snapshot().running() if c.name == "web" and "static" not in c.pod)
    original = tamper.store_hash(cluster, victim.id, tamper.WRONG)
    try:
        yield {}
    finally:
        tamper.store_hash(cluster, victim.id, original)


@contextlib.contextmanager
def two_shims(cluster: Cluster) -> Iterator[Object]:
    """Let a container get a shim of its own, as containerd gives one where the pod's socket is gone."""
    node = cluster.node
    with pods.running(cluster, pods.pod(cluster, "two-shims")):
        victim = next(c for c in node.snapshot().running() if c.pod == f"{pods.NAMESPACE}/two-shims")
        splitpods.split(cluster.lab, node, victim)
        yield {}


@contextlib.contextmanager
def log_is_a_fifo(cluster: Cluster) -> Iterator[Object]:
    """Put a FIFO in the place of a container's log, as a pod that may write to the logs of others can."""
    with pods.running(cluster, pods.pod(cluster, "logged")):
        cluster.node.exec("sh", "-c", f"cd /var/log/pods/{pods.NAMESPACE}_logged_*/main && rm 0.log && mkfifo 0.log")
        yield {}


ROWS = (
    Row(name="runtime/invalid", shows="runtime_configuration_is_valid", reason=DRIFT,
        make=configuration(lambda text: f"{text}\nbroken = = 1\n")),
    Row(name="runtime/environment-gone", shows="runtime_configuration_is_valid", reason=DRIFT,
        make=unit("containerd.service", "EnvironmentFile=/etc/default/gone")),
    Row(name="runtime/another-root", shows="runtime_keeps_its_directories", reason=DRIFT,
        make=configuration(lambda text: f'root = "/var/lib/elsewhere"\n{text}')),
    Row(name="runtime/changed", shows="runtime_files_are_unchanged", reason=DRIFT,
        make=configuration(lambda text: f"{text}\n[metrics]\n  grpc_histogram = false\n")),
    Row(name="runtime/command", shows="runtime_command_is_unchanged", reason=DRIFT,
        also=frozenset({"runtime_files_are_unchanged"}),
        make=unit("containerd.service", "ExecStart=", "ExecStart=/usr/bin/containerd --log-level debug")),
    Row(name="runtime/watchdog", shows="runtime_files_are_unchanged", reason=DRIFT,
        make=unit("containerd.service", "WatchdogSec=15min")),
    Row(name="runtime/logs-elsewhere", shows="logs_are_in_the_journal", reason="PodExpectedToEnd", ends=WARNED,
        make=logs_elsewhere),
    Row(name="runtime/another-build", shows="runtime_program_is_unchanged", reason=DRIFT, make=another_build),
    Row(name="runtime/bound", shows="runtime_is_restartable", reason="UnsupportedRuntime", make=bound),
    Row(name="runtime/proxied", shows="runtime_is_the_unit", reason="UnsupportedRuntime", make=proxied),
    Row(name="runtime/stored-otherwise", shows="stored_is_served", reason="StoredHashNotReproduced",
        make=stored_otherwise),
    Row(name="runtime/two-shims", shows="pods_survive_a_restart", reason="RuntimeRestartWouldKillPod", make=two_shims,
        also=frozenset({"containers_do_not_crash"})),
    Row(name="runtime/log-fifo", shows="pods_survive_a_restart", reason="RuntimeRestartWouldKillPod",
        make=log_is_a_fifo),
    Row(name="runtime/unshielded", shows="shield_is_possible", reason="ShieldUnavailable", ends=WARNED,
        make=mounted_socket),
    Row(name="runtime/shield-required", shows="required_shield_is_possible", reason="ShieldUnavailable",
        make=mounted_socket, spec={"verify": {"shield": "Require"}}),
    Row(name="runtime/socket-mounted", shows="sockets_are_not_mounted", reason="RuntimeSocketMounted", ends=WARNED,
        make=having(pods.mounting("/s.sock"), volumes=[pods.of_host(nodefiles.CONTAINERD_SOCKET)])),
    Row(name="runtime/socket-mounted-refused", shows="sockets_are_not_mounted", reason="RuntimeSocketMounted",
        make=having(pods.mounting("/s.sock"), volumes=[pods.of_host(nodefiles.CONTAINERD_SOCKET)]),
        spec={"verify": {"socketMounts": "Refuse"}}),
    Row(name="runtime/connected", shows="nobody_hangs_on_the_runtime", reason="RuntimeConnectionWouldBreak",
        ends=WARNED,
        make=having(pods.following(), volumes=[pods.of_host("/")])),
    Row(name="unit/reboots", shows="units_leave_the_machine_up", reason="KubeletStopAffectsOthers",
        also=frozenset({"kubelet_starts_as_it_runs"}), make=unit("kubelet.service", "[Unit]", "FailureAction=reboot")),
    Row(name="unit/log-file", shows="units_log_to_no_file", reason="KubeletWouldNotStart",
        also=frozenset({"kubelet_starts_as_it_runs"}),
        make=unit("kubelet.service", "StandardOutput=append:/var/log/kubelet.log")),
    Row(name="unit/requires-gone", shows="units_can_be_started", reason="KubeletWouldNotStart",
        also=frozenset({"kubelet_starts_as_it_runs"}),
        make=unit("kubelet.service", "[Unit]", "Requires=lab-gone.service")),
    Row(name="unit/requires-failed", shows="units_would_start_again", reason="KubeletWouldNotStart",
        also=frozenset({"kubelet_starts_as_it_runs"}), make=requiring_failed),
    Row(name="unit/condition", shows="units_would_start_again", reason="KubeletWouldNotStart",
        also=frozenset({"kubelet_starts_as_it_runs"}),
        make=unit("kubelet.service", "[Unit]", "ConditionPathExists=/etc/kubernetes/gone")),
    Row(name="unit/command", shows="units_start_nothing_else", reason="UnsupportedUnitCommand",
        also=frozenset({"kubelet_starts_as_it_runs"}),
        make=unit("kubelet.service", "ExecStartPre=/bin/cp /opt/old/kubelet /usr/bin/kubelet")),
)  # fmt: skip
