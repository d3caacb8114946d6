"""A kubelet that belongs to a package: a node's dpkg has it on record, and apt knows of a newer one."""

import contextlib
import fcntl
from collections.abc import Iterator

from e2e.lab.nodes.node import Node

DATABASE = "/var/lib/dpkg"
STATUS = f"{DATABASE}/status"
INFO = f"{DATABASE}/info/kubelet.list"
RECORDED, NEWER = "1.30.14-1.1", "1.30.15-1.1"
REPOSITORY = "/opt/packages"
SOURCES = f"{REPOSITORY}/sources.list"
HOLD = {"kubelet": {"package": "Hold"}}


def _stanza(version: str, *lines: str) -> str:
    usual = "Maintainer: Nobody <nobody@example.com>", "Architecture: all", f"Version: {version}"
    return "\n".join(("Package: kubelet", *lines, *usual, "Description: node agent")) + "\n"


def install(node: Node) -> None:
    """Have dpkg on record that it installed the node's kubelet, and apt know of a newer package.

    Only the records are made: to install a package would exchange the program of the kubelet that runs.
    """
    node.write(INFO, "/.\n/usr\n/usr/bin\n/usr/bin/kubelet\n")
    text = (node.disk / STATUS.lstrip("/")).read_text().rstrip("\n")
    node.write(STATUS, f"{text}\n\n{_stanza(RECORDED, 'Status: install ok installed')}")
    node.write(f"{REPOSITORY}/Packages", _stanza(NEWER, "Filename: kubelet.deb", "Size: 1", f"SHA256: {'0' * 64}"))
    node.write(SOURCES, f"deb [trusted=yes] file:{REPOSITORY} ./\n")
    node.exec("sh", "-c", "echo kubelet install | dpkg --set-selections")  # in the form in which dpkg writes it
    node.exec(*_apt("update"))


def remove(node: Node) -> None:
    """Have dpkg forget the package."""
    text = (node.disk / STATUS.lstrip("/")).read_text()
    kept = [stanza for stanza in text.split("\n\n") if "Package: kubelet\n" not in stanza]
    node.write(STATUS, "\n\n".join(kept))
    node.exec("rm", "-rf", INFO, REPOSITORY)


def selection(node: Node) -> str:
    """Return what dpkg says is wanted of the package."""
    return node.exec("dpkg-query", "--show", "--showformat=${db:Status-Want}", "kubelet").stdout


def status(node: Node) -> bytes:
    """Return the whole of what dpkg has on record."""
    return (node.disk / STATUS.lstrip("/")).read_bytes()


def next_upgrade_exchanges_it(node: Node) -> bool:
    """Report whether the next unattended upgrade of the node would install the newer package."""
    return f"Inst kubelet [{RECORDED}] ({NEWER} " in node.exec(*_apt("--simulate", "upgrade")).stdout


def _apt(*words: str) -> tuple[str, ...]:
    parts = f"Dir::Etc::SourceList={SOURCES}", "Dir::Etc::SourceParts=/dev/null", "APT::Sandbox::User=root"
    return ("apt-get", *(f"-o{part}" for part in parts), *words)


@contextlib.contextmanager
def in_use(node: Node) -> Iterator[None]:
    """Lock the database of the node's dpkg, as apt does while it works."""
    with (node.disk / f"{DATABASE}/lock-frontend".lstrip("/")).open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield
