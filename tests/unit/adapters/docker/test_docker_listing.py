"""What dockerd answers, read together with what the kernel shows."""

from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.mounted import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.runtimes.docker import process as runtime
from nodeupgrade.node.runtimes.docker.client import TYPE_LABEL
from nodeupgrade.node.runtimes.docker.listing import details, nanoseconds, to_inventory
from nodeupgrade.node.runtimes.docker.metadata import HASH_LABEL
from nodeupgrade.node.runtimes.docker.pod_addresses import address
from nodeupgrade.node.runtimes.inventory import ContainerState

TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.244.1.0/24 2 0 2
        |-- 10.244.1.6
           /32 host LOCAL
        |-- 10.244.1.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
"""
UNIX = """Num       RefCount Protocol Flags    Type St Inode Path
ffff: 00000002 00000000 00010000 0001 01 17 /run/docker.sock
ffff: 00000002 00000000 00010000 0001 01 18 /run/other/docker.sock
ffff: 00000003 00000000 00000000 0001 03 19 /run/docker.sock
ffff: 00000003 00000000 00000000 0001 03 20
"""


class Node:
    """A node of files: its processes, and what their networks have."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.processes = ProcessTable(root / "proc")
        self.files = HostFiles(root)

    def process(self, pid: int, name: str, parent: int, *, started: int = 5, opened: tuple[str, ...] = ()) -> None:
        place = self.root / "proc" / str(pid)
        (place / "fd").mkdir(parents=True)
        (place / "net").mkdir()
        (place / "stat").write_text(f"{pid} ({name}) S {parent} {' 0' * 17} {started} 0 0\n")
        (place / "cmdline").write_text(f"/usr/sbin/{name}\0")
        for number, target in enumerate(opened):
            (place / "fd" / str(number)).symlink_to(target)

    def network(self, pid: int, **files: str) -> None:
        for name, text in files.items():
            (self.root / "proc" / str(pid) / "net" / name).write_text(text)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path)
    made.process(1, "systemd", 0, opened=("socket:[17]", "socket:[18]"))
    made.network(1, unix=UNIX)
    return made


ENDPOINT = PurePosixPath("/run/docker.sock")


def test_of_those_who_hold_the_socket_it_is_not_systemd(node: Node) -> None:
    node.process(70, "dockerd", 1, opened=("/dev/null", "socket:[17]"))

    found = runtime.listener(ENDPOINT, 70, node.processes, node.files)

    assert found is not None
    assert (found.pid, found.words) == (70, ("/usr/sbin/dockerd",))


def test_another_process_than_the_units_is_named(node: Node) -> None:
    node.process(70, "dockerd", 1, opened=("socket:[18]",))
    node.process(71, "dockerd", 1, opened=("socket:[17]",))

    found = runtime.listener(ENDPOINT, 70, node.processes, node.files)

    assert found is not None
    assert found.pid == 71


def test_where_nobody_holds_it_nobody_is_named(node: Node) -> None:
    node.process(70, "dockerd", 1, opened=("socket:[20]",))
    assert runtime.listener(ENDPOINT, 70, node.processes, node.files) is None


def test_the_address_of_a_pod_is_the_one_that_is_local_to_its_network(node: Node) -> None:
    node.process(9, "sleep", 8)
    assert address(node.processes, 9) == ""
    six = "fd000000000000000000000000000005 02 40 00 80 eth0\nfe80000000000000000000000000cafe 02 40 20 80 eth0\n"
    node.network(9, if_inet6=six)
    assert address(node.processes, 9) == "fd000000000000000000000000000005"
    node.network(9, fib_trie=TRIE)
    assert address(node.processes, 9) == "10.244.1.6"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01Z", 1_000_000_000),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("1970-01-01T00:00:01.000000007Z", 1_000_000_007),
        ("1970-01-01T01:00:01.2+01:00", 1_200_000_000),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_times_are_exact(text: str, expected: int | None) -> None:
    assert nanoseconds(text) == expected


def listed(kind: str, **more: str) -> dict[str, Any]:
    pod = {f"io.kubernetes.pod.{key}": key for key in ("name", "namespace", "uid")}
    labels = {TYPE_LABEL: kind, **pod, "io.kubernetes.container.name": "web", "io.kubernetes.sandbox.id": "s", **more}
    return {"Id": kind, "Names": ["/k8s_web_name_namespace_uid_3"], "Labels": labels, "State": "running"}


def inspected(pid: int) -> dict[str, Any]:
    times = {"StartedAt": "1970-01-01T00:00:02Z", "FinishedAt": "0001-01-01T00:00:00Z"}
    return {"Created": "1970-01-01T00:00:01Z", "State": {"Running": True, "Pid": pid, "ExitCode": 0, **times}}


def test_a_container_has_its_own_shim_and_loses_it(node: Node) -> None:
    node.process(8, "containerd-shim", 1)
    node.process(9, "sh", 8)
    known = {"container": details(inspected(9))}

    def seen() -> Any:
        entries = [listed("container", **{HASH_LABEL: "a1"})]
        [container] = to_inventory(entries, known, node.processes, full=True, addresses=False).containers
        return container

    container = seen()
    assert (container.state, container.attempt, container.hashes.container) == (ContainerState.RUNNING, 3, "a1")
    assert (container.created_at, container.started_at) == (1_000_000_000, 2_000_000_000)
    assert (container.process.pid, container.monitor.pid) == (9, 8)
    (node.root / "proc/9/stat").write_text(f"9 (sh) S 1 {' 0' * 17} 5 0 0\n")
    assert seen().monitor is None, "whoever adopts an orphan is no shim"


@pytest.mark.parametrize(
    "entry",
    [
        {**listed("container"), "Names": ["/mine"]},
        {**listed("container"), "Labels": {TYPE_LABEL: "container"}},
        {**listed("podsandbox"), "Names": None},
        {**listed("podsandbox"), "Labels": None},
    ],
)
def test_an_answer_of_another_form_is_an_error_in_words(node: Node, entry: dict[str, Any]) -> None:
    known = {str(entry["Id"]): details(inspected(9))}
    with pytest.raises(StepFailed, match="cannot read dockerd's list"):
        to_inventory([entry], known, node.processes, full=False, addresses=False)


@pytest.mark.parametrize(
    "broken", [{}, {"State": {}}, {**inspected(1), "Created": "soon"}, {**inspected(1), "State": None}]
)
def test_details_of_another_form_are_an_error_in_words(broken: dict[str, Any]) -> None:
    with pytest.raises(StepFailed, match="cannot read dockerd's details"):
        details(broken)
