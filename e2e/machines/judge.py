"""Whether a machine is exactly OLD or exactly NEW: bytewise, and by what its runtime stores.

It shares no code with the operator.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from e2e.faults import oracle
from e2e.lab.errors import LabError
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until
from e2e.machines.stage import Stage, wait_for_version

_FILES = (
    nodefiles.KUBELET_BINARY, nodefiles.KUBELET_CONFIG, nodefiles.KUBELET_FLAGS, nodefiles.KUBELET_UNIT,
    nodefiles.KUBELET_KUBECONFIG, "/etc/containerd/config.toml", f"{nodefiles.STATIC_PODS}/static-web.json",
)  # fmt: skip
_QUIET_SECONDS = 120
_LEFT_TO_AN_AGENT = frozenset({
    "/etc/systemd/system/nodeupgrade-executor.service", "/etc/systemd/system/nodeupgrade-dead-man.timer",
    "/etc/systemd/system/kubelet.service.d/80-nodeupgrade-executor.conf", "/run/nodeupgrade-shield.lock",
    "nodeupgrade-executor.service", "nodeupgrade-dead-man.timer", "a drop-in that systemd remembers",
})  # fmt: skip
"""What an executor that finishes a run after a boot leaves in place: the next agent removes it. With a copy of a disk
none comes, since for the API server the run is over.
"""
_STILL_SECONDS = 3

_IDLE = """\
systemctl is-active --quiet nodeupgrade-executor.service && exit 1
newest=$(ls -td /var/lib/nodeupgrade/runs/* | head -n 1)/journal
[ ! -s "$newest" ] || grep -q '"mark":"finished"' "$newest"
"""

Digests = Mapping[str, str]
"""Path → SHA-256 of everything that decides how a kubelet runs."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a machine is after it was interrupted."""

    version: str  # of its kubelet, if everything is as it was with that version; else empty
    complaints: tuple[str, ...]  # what is not as it must be


def digests(node: Node) -> Digests:
    """Return the digests of a machine's files."""
    told = node.exec("sha256sum", *_FILES, timeout=120).stdout
    return {path: digest for digest, path in (line.split() for line in told.splitlines())}


def judged(stage: Stage, node: Node, known: Mapping[str, Digests], *, agent: bool) -> Verdict:
    """Wait until an interrupted machine runs again, and judge it.

    Args:
        stage: the stage.
        node: its machine, or the twin of that.
        agent: whether an agent comes and cleans up.
        known: the digests by version.
    """
    may_stay = frozenset[str]() if agent else _LEFT_TO_AN_AGENT

    def left() -> set[str]:
        return {*oracle.left_over(node)} - may_stay

    try:
        wait_until("the end of the run on the node", lambda: _is_idle(node) and not left(), timeout=_QUIET_SECONDS)
        node.wait_kubelet_healthy()
    except LabError as error:
        return Verdict("", (f"{error}; left: {', '.join(sorted(left()))}",))
    now = digests(node)
    version = next((each for each, files in known.items() if files == now), "")
    if not version:
        odd = [path for path in now if all(files[path] != now[path] for files in known.values())]
        return Verdict("", (f"neither OLD nor NEW: {', '.join(odd) or 'some files of each'}",))
    return Verdict(version, tuple(_about_pods(stage, node, version)))


def _is_idle(node: Node) -> bool:
    """Report whether no executor is at work, and the newest run is over if it began."""
    return node.exec("sh", "-c", _IDLE, check=False).returncode == 0


def _about_pods(stage: Stage, node: Node, version: str) -> Iterator[str]:
    expected = stage.hashes[version]

    def all_run() -> bool:
        return {(c.pod, c.name) for c in node.snapshot().running()} >= expected.keys()

    try:
        wait_for_version(stage, version)
        wait_until("all containers", all_run, timeout=300, interval=2)
    except LabError as error:
        yield str(error)
    for container in node.settled(quiet=_STILL_SECONDS, limit=60).running():
        wanted = expected.get((container.pod, container.name), container.stored_hash)
        if container.stored_hash != wanted or container.served_hash != wanted:
            yield f"{container.pod}/{container.name} stores {container.stored_hash}, which is not that of {version}"
