"""What must hold once a run has ended, whatever happened to it; shares no code with the operator."""

import contextlib
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import disturbed
from e2e.faults import along
from e2e.faults.run import FaultRun
from e2e.lab import LabError
from e2e.lab.nodes.node import Node
from e2e.lab.oracle.snapshot import NodeSnapshot
from e2e.lab.process import wait_until

LEFT_OVER = (
    "etc/systemd/system/nodeupgrade-*", "etc/systemd/system/kubelet.service.d/*nodeupgrade*",
    "run/systemd/system/kubelet.service.d/*nodeupgrade*", "run/nodeupgrade/*",
    "run/systemd/system/nodeupgrade-*", "usr/bin/.kubelet*staged*",
    "usr/bin/.*.partial", "var/lib/nodeupgrade/bundles/.incoming*", "var/lib/nodeupgrade/runs/*/*.reserve",
    "etc/kubernetes/manifests/.*", "var/lib/kubelet/.*nodeupgrade*", "run/nodeupgrade-rescue*",
    "run/nodeupgrade-journal*", "var/lib/nodeupgrade/spare/*",
    "run/nodeupgrade-shield*", "run/containerd/nodeupgrade-*", "run/nodeupgrade-containerd*",
    "run/systemd/system/containerd.service.d/*nodeupgrade*", "var/lib/docker/containers/*/.*nodeupgrade*",
    "run/crio/nodeupgrade-*", "var/lib/containers/storage/overlay-containers/*/userdata/.*nodeupgrade*",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is not as it must be after a run."""

    complaints: list[str]
    disturbed: list[str]  # ``namespace/name`` of the pod of each instance that did not survive


REMEMBERED = "a drop-in that systemd remembers"
FLAGS_LEFT_OUT = frozenset({"/etc/systemd/system/kubelet.service.d/90-nodeupgrade.conf", REMEMBERED})
"""What stays where a kubelet has to start without a flag of the one before."""


def judged(run: FaultRun, phase: str, expected: frozenset[str], *, reboots: bool) -> Judgement:
    """List everything that is not as it must be after the run."""
    about_the_node = [*_about_the_node(run, phase, expected)]
    after = run.cluster.node.settled(quiet=3, limit=90, but=run.free)
    found = [] if reboots else [d for d in disturbed(run.before, after) if not run.may_change(d.pod)]
    pods = {difference.id: difference.pod for difference in found}
    lost = [f"{len(pods)} instances disturbed, first: {found[0]}"] if found else []
    return Judgement([*about_the_node, *lost, *_about_hashes(run, after)], [*pods.values()])


def _about_the_node(run: FaultRun, phase: str, expected: frozenset[str]) -> Iterator[str]:
    if phase not in expected:
        yield f"ended as {phase}, not {' or '.join(sorted(expected))}"
    version = run.version_after
    with contextlib.suppress(LabError):
        wait_until("the version", lambda: run.cluster.kubelet_version() == version, timeout=30)
    if (found := run.cluster.kubelet_version()) != version:
        yield f"the node reports kubelet {found} after {phase}"
    on_disk = run.cluster.node.exec("/usr/bin/kubelet", "--version").stdout.strip()
    if on_disk != f"Kubernetes v{version}":
        yield f"the program on disk is {on_disk} after {phase}"
    node = run.cluster.node_object()
    if not run.cluster.schedulable() or "nodeupgrade.dev/cordoned-by" in node["metadata"].get("annotations", {}):
        yield "the node is still cordoned, or marked as cordoned by us"
    runtime = run.cluster.node.runtime
    if runtime.serves_its_socket and (owner := listener(run.cluster.node)) != runtime.daemon:
        yield f"{owner or 'nobody'} listens at the runtime's path"
    if left := [each for each in left_over(run.cluster.node) if each not in run.stays]:
        yield f"left behind: {', '.join(left)}"
    if version == run.old and run.manifests() != run.manifests_before:
        yield "static pod manifests are not what they were"
    yield from along.wrong(run)


def _about_hashes(run: FaultRun, after: NodeSnapshot) -> Iterator[str]:
    version = run.version_after
    for container in after.running():
        if run.may_change(container.pod):
            continue
        if container.served_hash != container.stored_hash:
            yield f"{container.pod}/{container.name} serves {container.served_hash}, stores {container.stored_hash}"
        known = run.known.setdefault((container.id, version), container.served_hash)
        if known != container.served_hash:
            yield f"{container.pod}/{container.name} serves {container.served_hash}, {known} is that of {version}"
        other = run.known.get((container.id, run.old if version == run.new else run.new))
        if run.all_change and known == other and container.name not in run.uncompared:
            yield f"{container.pod}/{container.name} serves the same hash in both eras"


def listener(node: Node) -> str:
    """Return the program that listens at the path of the runtime's socket; empty if nobody does.

    The path at which a socket was bound says nothing: the kernel keeps it when the socket is renamed.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        try:
            connection.connect(f"{node.root}{node.runtime.socket}")
        except OSError:
            return ""
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", credentials)
    return Path(f"/proc/{pid}/comm").read_text().strip()


def left_over(node: Node) -> list[str]:
    """List what runs have left on a node."""
    root = node.root
    files = [f"/{path.relative_to(root)}" for pattern in LEFT_OVER for path in root.glob(pattern)]
    asked = ("systemctl", "list-units", "--all", "--plain", "--no-legend", "nodeupgrade*")
    units = [line.split()[0] for line in node.exec(*asked).stdout.splitlines() if line.split()]
    properties = "--property=DropInPaths,LoadState,ExecStart,NeedDaemonReload"
    shown = node.exec("systemctl", "show", "kubelet", node.runtime.unit, properties).stdout
    remembered = [REMEMBERED] if "nodeupgrade" in shown else []
    unread = ["a unit file that systemd has not read"] if "NeedDaemonReload=yes" in shown else []
    return [*files, *units, *remembered, *unread]
