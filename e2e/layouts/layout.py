"""A layout, and how a node of a lab gets it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from e2e.cluster import Object
from e2e.lab import Lab
from e2e.lab.binaries.versions import Version
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until

KUBELET_UNIT = "/etc/systemd/system/kubelet.service"
PACKAGED_UNIT = "/usr/lib/systemd/system/kubelet.service"
_INSTALL = "[Install]\nWantedBy=multi-user.target\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What the kubelet of a lab's node is started with."""

    config: str
    kubeconfig: str
    rest: tuple[str, ...]  # the flags besides those for its configuration and its kubeconfig

    @property
    def flags(self) -> str:
        """All of them, as words of a command line."""
        return " ".join((f"--config={self.config}", f"--kubeconfig={self.kubeconfig}", *self.rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a node is laid out."""

    name: str
    source: str  # where the facts are from
    files: Callable[[Start], Mapping[str, str]]  # path → text of what is to be written
    kubelet: str = nodefiles.KUBELET_BINARY  # path of the kubelet
    links: Mapping[str, str] = field(default_factory=dict)  # path → target of symbolic links
    scripts: Mapping[str, str] = field(default_factory=dict)  # path → text of what is executable
    commands: tuple[str, ...] = ()  # what is run before the units are started, one line for a shell each
    spec: Object = field(default_factory=dict)  # what a NodeUpgrade for such a node says besides
    verify: Object = field(default_factory=dict)  # and in its ``verify``
    note: str = ""  # what this spec is for


def unit(*service: str, first: tuple[str, ...] = ()) -> str:
    """Return the text of a kubelet's unit with these lines."""
    return "\n".join(("[Unit]", "Description=kubelet", *first, "[Service]", *service, "", _INSTALL))


def lay_out(lab: Lab, node: Node, layout: Layout) -> None:
    """Give a node its layout, before anything runs on it, and wait until it is Ready again."""
    start = start_of(node)
    node.exec("systemctl", "disable", "--now", "kubelet")
    node.exec("systemctl", "stop", "containerd")
    for path in (KUBELET_UNIT, nodefiles.KUBELET_FLAGS):
        (node.disk / path.lstrip("/")).unlink()
    for path, target in layout.links.items():
        node.exec("sh", "-c", f"mkdir -p $(dirname {path}) {target} && ln -sfn {target} {path}")
    for path, text in layout.scripts.items():
        node.write(path, text, 0o755)
    for path, text in layout.files(start).items():
        node.write(path, text)
    if layout.kubelet != nodefiles.KUBELET_BINARY:
        node.exec("sh", "-c", f"mkdir -p $(dirname {layout.kubelet}) && mv {nodefiles.KUBELET_BINARY} {layout.kubelet}")
    for line in layout.commands:
        node.exec("sh", "-ec", line)
    node.exec("systemctl", "daemon-reload")
    node.exec("systemctl", "start", "containerd")
    node.exec("systemctl", "enable", "--now", "kubelet")
    node.wait_kubelet_healthy()
    wait_until("the kubelet's report", lambda: _is_ready(lab, node) or None, timeout=120)


def start_of(node: Node) -> Start:
    """Return what a node's kubelet is started with as the lab has made it."""
    flags = nodefiles.kubelet_flags(node.name, node.addresses, _version(node), node.runtime)
    words = flags.partition('"')[2].rstrip().rstrip('"').split()
    given = {word.partition("=")[0]: word.partition("=")[2] for word in words}
    rest = tuple(word for word in words if not word.startswith(("--config=", "--kubeconfig=")))
    return Start(config=given["--config"], kubeconfig=given["--kubeconfig"], rest=rest)


def _version(node: Node) -> Version:
    return Version.parse(node.record.kubelet)


def _is_ready(lab: Lab, node: Node) -> bool:
    conditions = lab.api.get("nodes", node.name)["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
