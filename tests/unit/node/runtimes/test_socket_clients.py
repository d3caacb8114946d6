"""Tests for finding the clients of a runtime socket, against a fake /proc."""

import os
import socket
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.api.values import ContainerId, PodRef, PodUid, SandboxId
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import LARGEST_READ
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.process import Process
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.processes.unix_sockets import UnixSocket
from nodeupgrade.node.runtimes.description import RuntimeProcess
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, StoredHashes
from nodeupgrade.node.runtimes.runtime import RuntimeClients
from nodeupgrade.node.runtimes.socket_clients import find_clients, listening_sockets
from tests.builders.hostile_text import NAME_SEPARATORS

ID = ContainerId("a" * 64)
OTHER = ContainerId("b" * 64)


def container(container_id: ContainerId, pid: int, started: int = 7) -> ContainerInstance:
    return ContainerInstance(
        id=container_id,
        name="main",
        sandbox_id=SandboxId("s"),
        pod=PodRef(namespace="default", name="web", uid=PodUid("u")),
        state=ContainerState.RUNNING,
        attempt=0,
        created_at=1,
        hashes=StoredHashes(container=None),
        process=Process(pid=pid, started=started),
    )


def test_who_listens_at_a_path_is_read_from_the_kernels_list() -> None:
    text = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        "0000: 00000002 00000000 00010000 0001 01 25 /run/containerd/containerd.sock\n"
        "0000: 00000003 00000000 00000000 0001 03 26 /run/containerd/containerd.sock\n"
        "0000: 00000002 00000000 00010000 0001 01 27 @abstract\n"
        "0000: 00000002 00000000 00010000 0001 01 28\n"
        "0000: 00000002 00000000 00010000 0001 01 29 /run/with a blank.sock\n"
    )

    assert list(listening_sockets(text)) == [
        (25, PurePosixPath("/run/containerd/containerd.sock")),
        (29, PurePosixPath("/run/with a blank.sock")),
    ]


@pytest.mark.parametrize("odd", [*NAME_SEPARATORS, "\n", "\n\n", " \n", "\nNum  ", "\n0000: 00000002\n"])
def test_no_name_of_a_socket_hides_another_or_becomes_one(odd: str) -> None:
    """The kernel writes them as they are, line feeds too."""
    text = (
        "Num       RefCount Protocol Flags    Type St Inode Path\n"
        f"0000: 00000002 00000000 00010000 0001 01 25 /run/a{odd}b\n"
        f"0000: 00000002 00000000 00000000 0001 01 26 @{odd}\n"
        "0000: 00000002 00000000 00010000 0001 01 27 /run/containerd/containerd.sock\n"
    )

    assert list(listening_sockets(text)) == [
        (25, PurePosixPath(f"/run/a{odd}b")),
        (27, PurePosixPath("/run/containerd/containerd.sock")),
    ]


def test_a_list_of_sockets_that_is_none_is_an_error() -> None:
    with pytest.raises(StepFailed, match="cannot read the list of Unix sockets"):
        list(listening_sockets("head\nodd\n"))


class Node:
    """A ``/proc`` made by hand: init, a daemon with PID 20, and the processes of containers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "run/rt").mkdir(parents=True)
        self.processes, self.files = ProcessTable(root / "proc"), HostFiles(root)
        self.daemon = RuntimeProcess(pid=20, words=("rt",), program=None)
        self.process(1, mounts="1 0 0:9 / / rw - ext4 /dev/x rw\n2 1 0:24 / /run rw - tmpfs tmpfs rw\n")
        self.process(20, sockets=(100, 101, 200))
        self._listening: list[str] = ["head"]
        self.listens(100, "/run/rt/rt.sock")

    def process(
        self, pid: int, *, mounts: str = "", cgroup: str = "", sockets: tuple[int, ...] = (), network: str = "net:[1]"
    ) -> None:
        place = self.root / "proc" / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "ns").mkdir()
        for number, inode in enumerate(sockets):
            (place / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
        target = self.root / network
        target.touch()
        (place / "ns" / "net").symlink_to(target)
        (place / "mountinfo").write_text(mounts)
        (place / "cgroup").write_text(cgroup)
        (place / "stat").write_text(f"{pid} (x) S 1 " + " ".join(["0"] * 17) + " 7 0\n")

    def listens(self, inode: int, path: str) -> None:
        (self.root / path.lstrip("/")).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as bound:
            at = os.open(self.root / path.lstrip("/").rpartition("/")[0], os.O_PATH)
            bound.bind(f"/proc/self/fd/{at}/{path.rpartition('/')[2]}")
            os.close(at)
        self._listening.append(f"0000: 00000002 00000000 00010000 0001 01 {inode} {path}")
        place = self.root / "proc/1/net"
        place.mkdir(exist_ok=True)
        (place / "unix").write_text("\n".join(self._listening))

    def clients(self, *inventory: ContainerInstance, sockets: dict[int, UnixSocket] | None = None) -> RuntimeClients:
        return find_clients(
            self.daemon, Inventory(containers=inventory), self.processes, self.files, lambda _: sockets or {}
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


FILE = "9 1 0:24 /rt/rt.sock /rt.sock rw - tmpfs tmpfs rw\n"
DIRECTORY = "9 1 0:24 /rt /rt rw - tmpfs tmpfs rw\n"
STALE = "9 1 0:24 /rt/rt.sock//deleted /rt.sock rw - tmpfs tmpfs rw\n"
ELSEWHERE = "9 1 0:25 /rt/rt.sock /rt.sock rw - tmpfs tmpfs rw\n"


@pytest.mark.parametrize(
    ("mounts", "found"),
    [(FILE, True), (DIRECTORY, False), (STALE, False), (ELSEWHERE, False)],
    ids=["the file", "its directory", "one of a former start", "another filesystem"],
)
def test_a_mount_of_the_file_is_told_from_one_of_its_directory(node: Node, mounts: str, found: bool) -> None:
    node.process(30, mounts=mounts)

    seen = node.clients(container(ID, 30))

    assert seen.mounted == ({ID: ("/run/rt/rt.sock",)} if found else {})


def test_a_socket_that_systemd_opened_is_not_made_anew(node: Node) -> None:
    (node.root / "proc/1/fd/9").symlink_to("socket:[100]")
    node.process(30, mounts=FILE)

    assert node.clients(container(ID, 30)).mounted == {}


def test_a_socket_of_systemds_that_is_stopped_too_is_made_anew(node: Node) -> None:
    (node.root / "proc/1/fd/9").symlink_to("socket:[100]")
    node.process(30, mounts=FILE)

    seen = find_clients(
        node.daemon, Inventory(containers=(container(ID, 30),)), node.processes, node.files, lambda _: {},
        with_systemds=True,
    )  # fmt: skip

    assert set(seen.mounted) == {ID}


def test_other_sockets_of_the_daemon_count_wherever_they_are(node: Node) -> None:
    (node.root / "run/nri").mkdir()
    node.listens(101, "/run/nri/nri.sock")
    node.listens(555, "/run/rt/anothers.sock")
    node.process(
        30, mounts="9 1 0:24 /nri/nri.sock /x rw - tmpfs tmpfs rw\n8 1 0:24 /rt/anothers.sock /y rw - t t rw\n"
    )

    assert node.clients(container(ID, 30)).mounted == {ID: ("/run/nri/nri.sock",)}


def test_a_process_that_is_another_one_by_now_mounts_nothing(node: Node) -> None:
    node.process(30, mounts=FILE)

    assert node.clients(container(ID, 30, started=6)).mounted == {}


CONNECTION = {300: UnixSocket(inode=300, peer=200, named=False), 200: UnixSocket(inode=200, peer=300, named=True)}
"""Inode 200 is the daemon's end, 300 a client's."""


@pytest.mark.parametrize(
    "cgroup",
    [
        f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
        f"0::/../../kubepods/pod1/{ID}",
        f"12:memory:/x\n1:name=systemd:/kubepods-pod1.slice:cri-containerd:{ID}",
        f"0::/kubepods/pod1/{ID}/init.scope",
        f"0::/kubepods.slice/crio-{ID}.scope/container",
    ],
)
def test_a_process_with_the_other_end_of_a_connection_belongs_to_its_container(node: Node, cgroup: str) -> None:
    node.process(30)
    node.process(31, cgroup=cgroup, sockets=(300,))

    assert node.clients(container(ID, 30), container(OTHER, 30), sockets=CONNECTION).connected == {ID}


@pytest.mark.parametrize(
    ("cgroup", "inode", "sockets"),
    [
        (f"0::/crio-conmon-{ID}.scope", 300, CONNECTION),
        ("0::/system.slice/kubelet.service", 300, CONNECTION),
        (f"0::/kubepods/pod1/{ID}", 301, CONNECTION),
        (f"0::/kubepods/pod1/{ID}", 300, {**CONNECTION, 200: UnixSocket(inode=200, peer=300, named=False)}),
        (f"0::/kubepods/pod1/{ID}", 300, {300: UnixSocket(inode=300, peer=999, named=False)}),
    ],
    ids=["a monitor", "the kubelet", "another socket", "the daemon is the client", "another daemon's"],
)
def test_nobody_else_is_taken_for_connected(
    node: Node, cgroup: str, inode: int, sockets: dict[int, UnixSocket]
) -> None:
    node.process(30)
    node.process(31, cgroup=cgroup, sockets=(inode,))

    assert node.clients(container(ID, 30), sockets=sockets).connected == frozenset()


def test_what_a_pod_has_open_whose_network_has_no_connection_to_the_daemon_is_not_looked_at(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have millions of descriptors, by processes that share a table."""
    node.process(30, cgroup=f"0::/kubepods/pod1/{ID}", sockets=(300,))
    node.process(31, cgroup=f"0::/kubepods/pod2/{OTHER}", sockets=(301,), network="net:[2]")
    asked, looked, sockets = list[int](), list[int](), ProcessTable.sockets

    def ask(processes: ProcessTable, pid: int) -> frozenset[int]:
        asked.append(pid)
        return sockets(processes, pid)

    monkeypatch.setattr(ProcessTable, "sockets", ask)
    networks: dict[int, dict[int, UnixSocket]] = {30: CONNECTION, 31: {}}
    open_network = ProcessTable.open_network

    def opened(processes: ProcessTable, pid: int) -> int:
        looked.append(pid)
        return open_network(processes, pid)

    monkeypatch.setattr(ProcessTable, "open_network", opened)
    found = find_clients(
        node.daemon,
        Inventory(containers=(container(ID, 30), container(OTHER, 31))),
        node.processes,
        node.files,
        lambda _: networks[looked[-1]],
    )

    assert found.connected == {ID}
    assert 31 not in asked


def test_a_kernel_that_does_not_tell_is_reported(node: Node) -> None:
    node.process(30, mounts=FILE)

    def refuse(_network: int) -> dict[int, UnixSocket]:
        raise PermissionError(1, "Operation not permitted")

    seen = find_clients(node.daemon, Inventory(containers=(container(ID, 30),)), node.processes, node.files, refuse)

    assert (seen.unknown, set(seen.mounted)) == ("Operation not permitted", {ID})


def test_a_container_that_ends_meanwhile_leaves_nothing_unknown(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.process(30)

    def ended(_processes: ProcessTable, _pid: int) -> int:
        raise ProcessLookupError(3, "No such process")

    monkeypatch.setattr(ProcessTable, "open_network", ended)

    assert node.clients(container(ID, 30)) == RuntimeClients()


@pytest.mark.parametrize("name", ["net/unix", "mountinfo"])
def test_a_list_that_somebody_has_blown_up_is_reported_and_hides_no_client(node: Node, name: str) -> None:
    """Who shares the host's network may open sockets with long names by the hundred thousand."""
    node.process(30, mounts=FILE)
    os.truncate(node.root / "proc/1" / name, LARGEST_READ + 1)

    assert "larger than 64 MiB" in node.clients(container(ID, 30)).unknown


def test_a_daemon_that_cannot_be_seen_is_reported(node: Node) -> None:
    seen = find_clients(None, Inventory(), node.processes, node.files)

    assert seen.unknown == "the runtime's process cannot be seen"
