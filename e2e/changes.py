"""Changes of a node's configuration by people and their tools, each with its way back."""

import contextlib
import json
from collections.abc import Callable, Iterator

from e2e.lab.errors import LabError
from e2e.lab.nodes import nodefiles
from e2e.lab.nodes.node import Node
from e2e.lab.process import wait_until

KUBELET_UNIT = "kubelet.service"
KUBELET_DROP_IN = f"/etc/systemd/system/{KUBELET_UNIT}.d/99-tool.conf"


@contextlib.contextmanager
def changed(node: Node, path: str, change: Callable[[str], str]) -> Iterator[None]:
    """Change a file of the node, and restore it at the end."""
    file = node.disk / path.lstrip("/")
    before = file.read_text()
    after = change(before)
    if after == before:
        raise LabError(f"{path} does not change: this proves nothing")
    file.write_text(after)
    try:
        yield
    finally:
        file.write_text(before)


@contextlib.contextmanager
def added(node: Node, path: str, text: str, mode: int = 0o644) -> Iterator[None]:
    """Add a file to the node, and remove it at the end."""
    node.write(path, text, mode)
    try:
        yield
    finally:
        node.exec("rm", "-f", path)


@contextlib.contextmanager
def drop_in(node: Node, unit: str, text: str) -> Iterator[None]:
    """Install a drop-in of a unit that systemd has read; what runs is not restarted."""
    path = f"/etc/systemd/system/{unit}.d/99-tool.conf"
    node.write(path, text)
    node.exec("systemctl", "daemon-reload")
    try:
        yield
    finally:
        node.exec("rm", "-f", path)
        node.exec("sh", "-c", f"rmdir /etc/systemd/system/{unit}.d 2>/dev/null || true")
        node.exec("systemctl", "daemon-reload")


def with_settings(**settings: object) -> Callable[[str], str]:
    """Return a change of the kubelet's configuration file; ``None`` takes a setting out."""

    def change(text: str) -> str:
        merged = json.loads(text) | settings
        return json.dumps({key: value for key, value in merged.items() if value is not None}, indent=2)

    return change


@contextlib.contextmanager
def kubelet_settings(node: Node, *, restart: bool = True, **settings: object) -> Iterator[None]:
    """Change the kubelet's configuration file; by default, the kubelet runs with it, and without it at the end."""
    with changed(node, nodefiles.KUBELET_CONFIG, with_settings(**settings)):
        if restart:
            restart_kubelet(node)
        yield
    restart_kubelet(node)


def restart_kubelet(node: Node) -> None:
    """Restart the kubelet, and wait until it is healthy."""
    node.exec("systemctl", "restart", "kubelet")
    node.wait_kubelet_healthy()


def restart_runtime(node: Node) -> None:
    """Restart the runtime, so that it serves what is stored, and wait until its CRI answers."""
    node.exec("systemctl", "restart", node.runtime.unit)
    wait_until("the runtime", node.runtime_answers, timeout=60)
