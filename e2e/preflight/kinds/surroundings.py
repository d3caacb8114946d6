"""What else is on the node and in the cluster: units, cgroups, volumes, other controllers."""

import contextlib
import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from e2e import pods
from e2e.changes import added, kubelet_settings
from e2e.cluster import Cluster, Object
from e2e.lab.host import cgroups
from e2e.preflight.kinds.kubelet import ACCEPT, ACCEPTED
from e2e.preflight.kinds.node import patch_status, refusing, taint
from e2e.preflight.row import WARNED, Hazard, Row
from nodeupgrade.node.own_directories import PROGRAM_PLACES

UNITS = "/etc/systemd/system"
SPARE = 160
"""MiB that are left for all pods: more than they ask for, less than they use."""
QUIET_SECONDS = 10
"""After these the kubelet leaves a new pod alone, until it looks at it again after a minute and kills it itself."""
PLACES = tuple(map(str, PROGRAM_PLACES))
"""Where a run keeps its programs and, in the first, its records."""
GIT = "/usr/local/bin/git"
SYSTEM = "kube-system"
SYSTEMCTL, REAL_SYSTEMCTL = "/usr/local/sbin/systemctl", "/bin/systemctl"
"""The first is found before the second."""


def unit(name: str, text: str) -> Hazard:
    """Run another unit."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with added(cluster.node, f"{UNITS}/{name}", text):
            cluster.node.exec("systemctl", "daemon-reload")
            cluster.node.exec("systemctl", "start", "--no-block", name)
            try:
                yield {}
            finally:
                cluster.node.exec("systemctl", "stop", name)
        cluster.node.exec("systemctl", "daemon-reload")

    return make


@contextlib.contextmanager
def systemd_too_old(cluster: Cluster) -> Iterator[Object]:
    """Let systemctl show the version of Debian 8, which is older than the oldest that is supported."""
    shown = f"{REAL_SYSTEMCTL} \"$@\" > $out; status=$?; sed 's/^Version=.*/Version=215/' $out; rm $out; exit $status"
    with added(cluster.node, SYSTEMCTL, f"#!/bin/sh\nout=$(mktemp)\n{shown}\n", 0o755):
        yield {}


def mounted(*mounts: tuple[str, ...], undo: tuple[str, ...]) -> Hazard:
    """Mount something on the node, in each of these ways; ``undo`` are the places from which it is unmounted."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        cluster.node.exec("mkdir", "-p", *undo)
        try:
            for words in mounts:
                cluster.node.exec("mount", *words)
            yield {}
        finally:
            cluster.node.exec("umount", "--lazy", *undo)

    return make


@contextlib.contextmanager
def cgroup_incomplete(cluster: Cluster) -> Iterator[Object]:
    """Take a pod's cgroup of one controller away."""
    with pods.running(cluster, pods.pod(cluster, "incomplete")):
        time.sleep(QUIET_SECONDS)
        victim = next(c for c in cluster.node.snapshot().running() if c.pod == f"{pods.NAMESPACE}/incomplete")
        for hierarchy in cgroups.hierarchies():
            top = Path(hierarchy.mount) / cluster.node.cgroup
            places = [path.parent for path in top.glob(f"kubepods/**/{victim.id}/cgroup.procs")]
            if "pids" in str(hierarchy.mount) and places:
                _remove(places[0].parent, top)
        yield {}


def _remove(place: Path, top: Path) -> None:
    for directory in (*(path for path in place.iterdir() if path.is_dir()), place):
        for pid in (directory / "cgroup.procs").read_text().split():
            (top / "cgroup.procs").write_text(pid)
        directory.rmdir()


@contextlib.contextmanager
def limit_lowered(cluster: Cluster) -> Iterator[Object]:
    """Reserve so much memory that the limit of all pods would sink below what they use."""
    capacity = int(cluster.node_object()["status"]["capacity"]["memory"].removesuffix("Ki"))
    reserved = {"memory": f"{capacity - SPARE * 1024}Ki"}
    with kubelet_settings(cluster.node, restart=False, systemReserved=reserved):
        yield {}


@contextlib.contextmanager
def git_repository(cluster: Cluster) -> Iterator[Object]:
    """Run a pod with a volume that an older kubelet has fetched; no network is needed, as `git` does nothing."""
    repository = {"repository": "https://nodeupgrade.test/none", "directory": "."}
    body = pods.pod(cluster, "git", volumes=[{"name": "source", "gitRepo": repository}])
    with added(cluster.node, GIT, "#!/bin/sh\nexit 0\n", 0o755), pods.running(cluster, body):
        yield {}


@contextlib.contextmanager
def claim_deleted(cluster: Cluster) -> Iterator[Object]:
    """Delete a claim that a pod uses: it stays until the pod is gone."""
    with pods.claiming(cluster):
        cluster.lab.kubectl("delete", "pvc", "-n", pods.NAMESPACE, pods.CLAIM, "--wait=false")
        yield {}


@contextlib.contextmanager
def claim_lost(cluster: Cluster) -> Iterator[Object]:
    """Remove the PersistentVolume of a claim that a pod uses."""
    with pods.claiming(cluster):
        cluster.lab.kubectl("delete", "pv", pods.CLAIM, "--wait=false")
        cluster.lab.kubectl("patch", "pv", pods.CLAIM, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        yield {}


@contextlib.contextmanager
def claim_made_anew(cluster: Cluster) -> Iterator[Object]:
    """Replace a claim that a pod uses by another of its name, as a backup that is restored does."""
    with pods.claiming(cluster):
        kubectl, claim = cluster.lab.kubectl, ("pvc", "-n", pods.NAMESPACE, pods.CLAIM)
        made = json.loads(kubectl("get", *claim, "-o", "json").stdout)
        kubectl("delete", *claim, "--wait=false")
        kubectl("patch", *claim, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        cluster.lab.apply(
            {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "metadata": {"name": pods.CLAIM, "namespace": pods.NAMESPACE}, "spec": made["spec"],
            }
        )  # fmt: skip
        yield {}


def reporting(before: Object, after: Object) -> Hazard:
    """Let the Node report other things than its kubelet does; ``after`` undoes it."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with refusing(cluster, f"system:node:{cluster.node.name}", "", "nodes/status", ("UPDATE",)):
            patch_status(cluster, before)
            try:
                yield {}
            finally:
                patch_status(cluster, after)

    return make


@contextlib.contextmanager
def pressure(cluster: Cluster) -> Iterator[Object]:
    """Let the Node report that it is short of memory."""
    condition = next(c for c in cluster.node_object()["status"]["conditions"] if c["type"] == "MemoryPressure")
    with reporting({"conditions": [condition | {"status": "True"}]}, {"conditions": [condition]})(cluster) as more:
        yield more


@contextlib.contextmanager
def clock_ahead(cluster: Cluster) -> Iterator[Object]:
    """Let the Node report what a kubelet writes whose clock is ten minutes ahead."""
    condition = next(c for c in cluster.node_object()["status"]["conditions"] if c["type"] == "Ready")
    later = (datetime.now(UTC) + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    ahead = {"conditions": [condition | {"lastHeartbeatTime": later}]}
    with reporting(ahead, {"conditions": [condition]})(cluster) as more:
        yield more


def being_removed(cluster: Cluster) -> AbstractContextManager[Object]:
    """Taint the node as the cluster autoscaler does before it removes one."""
    return taint(cluster, "ToBeDeletedByClusterAutoscaler", "1:NoSchedule")


@contextlib.contextmanager
def api_servers_differ(cluster: Cluster) -> Iterator[Object]:
    """Show two API servers of different versions, as pods that no node runs."""
    for number, version in enumerate(("v1.33.13", "v1.32.13")):
        image = f"registry.k8s.io/kube-apiserver:{version}"
        cluster.lab.apply({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"kube-apiserver-{number}", "namespace": SYSTEM,
                         "labels": {"component": "kube-apiserver", "tier": "control-plane"}},
            "spec": {"nodeSelector": {"nodeupgrade.test/none": ""}, "containers": [{"name": "main", "image": image}]},
        })  # fmt: skip
    try:
        yield {}
    finally:
        names = [f"kube-apiserver-{number}" for number in range(2)]
        cluster.lab.kubectl("delete", "pods", "-n", SYSTEM, *names, "--force", "--grace-period=0")


ROWS = (
    Row(name="host/systemd", shows="systemd_is_new_enough", reason="UnsupportedServiceManager", make=systemd_too_old),
    Row(name="host/bound", shows="nothing_else_stops", reason="KubeletStopAffectsOthers",
        make=unit("lab-bound.service", "[Unit]\nPartOf=kubelet.service\n[Service]\nExecStart=/bin/sleep infinity\n")),
    Row(name="host/package-upgrade", shows="nobody_else_changes_the_node", reason="ConflictingNodeOperation",
        make=unit("apt-daily-upgrade.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep 600\n")),
    Row(name="host/installer", shows="nobody_installs_another_kubelet", reason="ConflictingNodeOperation", ends=WARNED,
        make=unit("kops-configuration.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n")),
    Row(name="host/noexec", shows="executor_can_be_started", reason="ExecutorUnavailable",
        make=mounted(*(way for place in PLACES for way in (("--bind", place, place),
                                                           ("-o", "remount,bind,noexec", place))), undo=PLACES)),
    Row(name="host/forgetful", shows="run_outlives_a_boot", reason="RunDirectoryNotPersistent",
        make=mounted(("-t", "tmpfs", "none", PLACES[0]), undo=PLACES[:1])),
    Row(name="host/cgroup-incomplete", shows="pods_have_their_controllers", reason="PodCgroupWouldChange",
        make=cgroup_incomplete),
    Row(name="host/limit-lowered", shows="limit_covers_usage", reason="PodCgroupWouldChange", make=limit_lowered,
        spec=ACCEPT, also=ACCEPTED | {"pods_fit"}),
    Row(name="volume/git", shows="volumes_keep_their_plugin", reason="VolumeNotSupported", make=git_repository),
    Row(name="volume/claim-deleted", shows="claims_are_kept", reason="KubeletDefect", make=claim_deleted,
        new="1.32.3"),
    Row(name="volume/claim-lost", shows="claims_are_kept", reason="VolumeNotSupported", make=claim_lost),
    Row(name="volume/claim-made-anew", shows="claims_are_kept", reason="VolumeNotSupported", make=claim_made_anew),
    Row(name="volume/not-attached", shows="volumes_are_attached", reason="PodInTransition", ends=WARNED,
        make=reporting({"volumesInUse": ["kubernetes.io/csi/none^1"]}, {"volumesInUse": None})),
    Row(name="node/pressure", shows="node_is_not_under_pressure", reason="NodeUnderPressure", make=pressure),
    Row(name="host/clock", shows="clock_is_right", reason="ClockSkew", ends=WARNED, make=clock_ahead),
    Row(name="node/being-removed", shows="node_is_to_stay", reason="ConflictingNodeOperation", make=being_removed),
    Row(name="node/api-servers-differ", shows="api_servers_agree", reason="ControlPlaneVersionsDiffer",
        make=api_servers_differ),
)  # fmt: skip
