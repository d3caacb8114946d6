"""The kubelet: its program, its command line, its configuration, and the files that it keeps."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from e2e.changes import KUBELET_DROP_IN, changed, drop_in, kubelet_settings, restart_kubelet
from e2e.cluster import Cluster, Object
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until
from e2e.preflight.row import WARNED, Hazard, Row

WOULD_NOT_START = "KubeletWouldNotStart"
ACCEPT = {"kubelet": {"configurationDrift": "Accept"}}
ACCEPTED = frozenset({"nothing_is_accepted"})
"""What warns where a row changes the configuration on disk only, and the NodeUpgrade accepts that."""
STATE = "/var/lib/kubelet"
WRAPPER = "/usr/local/bin/start-kubelet"
UNKNOWN_TO_NEW = "--keep-terminated-pod-volumes=false"


def settings(*, restart: bool = False, **wanted: object) -> Hazard:
    """Change the kubelet's configuration file; the kubelet runs with it only where that is asked for."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with kubelet_settings(cluster.node, restart=restart, **wanted):
            yield {}

    return make


def state_file(name: str, change: Mapping[str, object] | str) -> Hazard:
    """Change a file in which the kubelet keeps what it has allotted."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        def edited(text: str) -> str:
            return change if isinstance(change, str) else json.dumps(json.loads(text) | change)

        with changed(cluster.node, f"{STATE}/{name}", edited):
            yield {}

    return make


@contextlib.contextmanager
def program_replaced(cluster: Cluster) -> Iterator[Object]:
    """Put another file in the place of the program that runs, as a package manager does."""
    node, path = cluster.node, nodefiles.KUBELET_BINARY
    node.exec("sh", "-c", f"cp {path} {path}.package && mv {path}.package {path}")
    try:
        yield {}
    finally:
        restart_kubelet(node)


@contextlib.contextmanager
def transient(cluster: Cluster) -> Iterator[Object]:
    """Run the kubelet as a unit that no file defines, so that it is gone once it is stopped."""
    node, away = cluster.node, f"{nodefiles.KUBELET_UNIT}.away"
    start = f". {nodefiles.KUBELET_FLAGS}; exec systemd-run --unit=kubelet --property=KillMode=process"
    node.exec("systemctl", "disable", "--now", "kubelet")
    node.exec("mv", nodefiles.KUBELET_UNIT, away)
    try:
        node.exec("systemctl", "daemon-reload")
        node.exec("sh", "-ec", f"{start} {nodefiles.KUBELET_BINARY} $KUBELET_FLAGS")
        yield {}
    finally:
        node.exec("systemctl", "stop", "kubelet")
        node.exec("mv", away, nodefiles.KUBELET_UNIT)
        node.exec("systemctl", "daemon-reload")
        node.exec("systemctl", "enable", "--now", "kubelet")


@contextlib.contextmanager
def flag_unknown(cluster: Cluster) -> Iterator[Object]:
    """Run the kubelet with a flag that the new one does not know."""
    node = cluster.node
    with changed(node, nodefiles.KUBELET_FLAGS, lambda text: text.rstrip('"\n') + f' {UNKNOWN_TO_NEW}"\n'):
        restart_kubelet(node)
        yield {}
    restart_kubelet(node)


@contextlib.contextmanager
def flag_in_wrapper(cluster: Cluster) -> Iterator[Object]:
    """Let a script start the kubelet, from which no drop-in can take a flag."""
    node = cluster.node
    node.write(WRAPPER, f'#!/bin/sh\nexec {nodefiles.KUBELET_BINARY} "$@" {UNKNOWN_TO_NEW}\n', 0o755)
    try:
        with drop_in(node, "kubelet.service", f"[Service]\nExecStart=\nExecStart={WRAPPER} $KUBELET_FLAGS\n"):
            restart_kubelet(node)
            yield {}
    finally:
        restart_kubelet(node)
        node.exec("rm", WRAPPER)


@contextlib.contextmanager
def not_loaded(cluster: Cluster) -> Iterator[Object]:
    """Change a unit's files without telling systemd."""
    node, path = cluster.node, KUBELET_DROP_IN
    node.write(path, "[Service]\nRestartSec=3\n")
    try:
        yield {}
    finally:
        node.exec("rm", "-r", str(Path(KUBELET_DROP_IN).parent))
        node.exec("systemctl", "daemon-reload")


@contextlib.contextmanager
def immutable(cluster: Cluster) -> Iterator[Object]:
    """Let nobody replace the kubelet's program."""
    cluster.node.exec("chattr", "+i", nodefiles.KUBELET_BINARY)
    try:
        yield {}
    finally:
        cluster.node.exec("chattr", "-i", nodefiles.KUBELET_BINARY)


@contextlib.contextmanager
def mounted(cluster: Cluster) -> Iterator[Object]:
    """Mount another file at the kubelet's path, as people do where nothing can be written to its directory."""
    node, program, behind = cluster.node, nodefiles.KUBELET_BINARY, "/opt/lab-kubelet"
    node.exec("cp", program, behind)
    node.exec("mount", "--bind", behind, program)
    try:
        restart_kubelet(node)
        yield {}
    finally:
        node.exec("systemctl", "stop", "kubelet")
        node.exec("umount", program)
        node.exec("rm", behind)
        restart_kubelet(node)


@contextlib.contextmanager
def no_space(cluster: Cluster) -> Iterator[Object]:
    """Give the place where journals are kept a small disk of its own."""
    node, place = cluster.node, "/var/lib/nodeupgrade"
    node.exec("mkdir", "-p", place)
    node.exec("mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", place)
    try:
        yield {}
    finally:
        wait_until("the end of its use", lambda: node.exec("umount", place, check=False).returncode == 0 or None, 60)


ROWS = (
    Row(name="kubelet/program-replaced", shows="kubelet_is_managed", reason="UnsupportedServiceManager",
        make=program_replaced),
    Row(name="kubelet/transient", shows="kubelet_is_managed", reason="UnsupportedServiceManager", make=transient),
    Row(name="kubelet/flag-unknown", shows="program_is_as_promised", reason="KubeletFlagsRejected",
        make=flag_unknown),
    Row(name="kubelet/flag-in-wrapper", shows="arguments_can_be_changed", reason="KubeletFlagsRejected",
        make=flag_in_wrapper, spec={"kubelet": {"flagPolicy": "Strip"}}),
    Row(name="kubelet/gate-removed", shows="feature_gates_are_known", reason=WOULD_NOT_START,
        make=settings(restart=True, featureGates={"InTreePluginAWSUnregister": False})),
    Row(name="kubelet/not-loaded", shows="units_are_as_loaded", reason=WOULD_NOT_START, make=not_loaded,
        also=frozenset({"kubelet_starts_as_it_runs"})),
    Row(name="kubelet/immutable", shows="files_can_be_changed", reason="KubeletBinaryNotReplaceable", make=immutable),
    Row(name="kubelet/mounted", shows="files_can_be_changed", reason="KubeletBinaryNotReplaceable", make=mounted),
    Row(name="kubelet/no-space", shows="there_is_space", reason="InsufficientSpace", make=no_space),
    Row(name="kubelet/cgroup-driver", shows="cgroups_stay_where_they_are", reason="PodCgroupWouldChange",
        make=settings(cgroupDriver="systemd"), spec=ACCEPT, also=ACCEPTED),
    Row(name="kubelet/cgroup-v1", shows="cgroups_stay_where_they_are", reason=WOULD_NOT_START, new="1.35.4",
        make=settings(failCgroupV1=None), spec={**ACCEPT, "skewPolicy": "Warn"}, also=ACCEPTED),
    Row(name="kubelet/state-damaged", shows="state_files_are_readable", reason=WOULD_NOT_START,
        make=state_file("cpu_manager_state", "{")),
    Row(name="kubelet/state-policy", shows="state_fits_the_policies", reason=WOULD_NOT_START,
        make=state_file("cpu_manager_state", {"policyName": "static", "checksum": 0})),
    Row(name="kubelet/state-checksum", shows="state_files_are_readable", reason=WOULD_NOT_START,
        make=state_file("cpu_manager_state", {"checksum": 1})),
    Row(name="kubelet/drift", shows="kubelet_starts_as_it_runs", reason="ConfigurationDrift",
        make=settings(maxPods=240)),
    Row(name="kubelet/drift-accepted", shows="nothing_is_accepted", reason="ConfigurationDrift", ends=WARNED,
        make=settings(maxPods=240), spec=ACCEPT),
    Row(name="kubelet/no-health", shows="health_can_be_asked", reason="UnsupportedServiceManager",
        make=settings(healthzPort=0), spec=ACCEPT, also=ACCEPTED),
)  # fmt: skip
