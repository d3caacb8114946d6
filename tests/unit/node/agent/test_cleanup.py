"""What runs have left on a node goes when nothing needs it any more, and not before."""

import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import cast

import pytest
import yaml

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.agent import cleanup
from nodeupgrade.node.agent.cleanup import StillNeededError, find_leftovers, remove
from nodeupgrade.node.executor.units import UNITS
from nodeupgrade.node.facts.gather import UNIT_DIRECTORY
from nodeupgrade.node.host.files.files import LARGEST_READ
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.packages.dpkg_database import STATUS, Package
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.journal.journal_file import FileJournal
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.own_directories import PROGRAM_PLACES, RUNS, STATE_DIRECTORY
from nodeupgrade.node.wiring import MountedHost, host_from_pod
from tests.builders.checkout import CHECKOUT
from tests.builders.run_records import records
from tests.crash.harness import DPKG, PACKAGE, PACKAGES
from tests.doubles.node import SimulatedNode, plan_for, pod_json


class Host:
    """A node's root directory on which a run has ended in some way, and its journal says so."""

    def __init__(self, root: Path, outcome: str | None, *, begun: bool = True, package: Package | None = None) -> None:
        self.root = root
        self.files = HostFiles(root)
        self.runs = RunStore(self.at(RUNS))
        self.at(PurePosixPath("/usr/bin")).mkdir(parents=True)
        node = SimulatedNode(version="v1.30.14", pods=[pod_json("web", "c")])
        node.disk.update(DPKG)
        self.plan = plan_for(node, "v1.33.13", package=package)
        self.runs.write_plan(self.plan)
        if begun:
            with FileJournal(self.at(RUNS) / self.plan.run_id / "journal") as journal:
                for each in records(outcome):
                    journal.append(each)
        self.backup = PurePosixPath(self.plan.swap.backup)
        self.files.write(self.backup, b"the previous kubelet")
        self.files.write(PurePosixPath(self.plan.swap.path), b"the kubelet")
        for place in PROGRAM_PLACES:
            self.files.write(place / "bundles/abc/python", b"a bundle")
        self.drop_ins = UNIT_DIRECTORY / f"{self.plan.swap.unit}.d"
        self.at(self.drop_ins).mkdir(parents=True)

    def at(self, path: PurePosixPath) -> Path:
        return self.root / path.relative_to("/")

    def clean(self) -> cleanup.Leftovers:
        found = find_leftovers(self.runs, self.files)
        remove(found, self.files, self.root)
        return found

    def left(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("outcome", ["Upgraded", "RolledBack"])
def test_nothing_is_left_but_the_kubelet(tmp_path: Path, outcome: str) -> None:
    host = Host(tmp_path, outcome)
    assert host.clean().removable == (host.backup,)
    assert host.left() == {host.plan.swap.path.lstrip("/")}
    assert not host.at(STATE_DIRECTORY).exists()
    assert not host.at(host.drop_ins).exists()
    assert host.clean().removable == (), "it can be repeated"


@pytest.mark.parametrize("selection", ["hold", "install"])
def test_a_package_that_a_run_has_held_is_named_as_long_as_it_is(tmp_path: Path, selection: str) -> None:
    host = Host(tmp_path, "Upgraded", package=PACKAGE)
    status = PACKAGES.replace(b"kubelet\nStatus: install", b"kubelet\nStatus: " + selection.encode())
    host.files.write(STATUS, status)
    kept = "package kubelet: it is held; release it with apt-mark unhold kubelet"
    assert host.clean().staying == ((kept,) if selection == "hold" else ())
    assert host.files.read(STATUS) == status


def test_drop_ins_of_others_stay(tmp_path: Path) -> None:
    host = Host(tmp_path, "Upgraded")
    host.files.write(host.drop_ins / "10-kubeadm.conf", b"[Service]")
    host.clean()
    assert host.files.read(host.drop_ins / "10-kubeadm.conf") == b"[Service]"


def test_a_plan_that_nobody_began_is_no_obstacle(tmp_path: Path) -> None:
    host = Host(tmp_path, None, begun=False)
    host.clean()
    assert not host.at(STATE_DIRECTORY).exists()


@pytest.mark.parametrize(
    "needed", ["under way", "a person is needed", "its units", "a plan that cannot be read", "its journal"]
)
def test_as_long_as_something_may_be_needed_nothing_goes(tmp_path: Path, needed: str) -> None:
    host = Host(tmp_path, {"under way": None, "a person is needed": "Degraded"}.get(needed, "Upgraded"))
    run = host.at(RUNS) / host.plan.run_id
    if needed == "its units":
        host.files.write(UNIT_DIRECTORY / "nodeupgrade-executor.service", b"[Service]")
    if needed == "a plan that cannot be read":
        (run / "plan.json").write_text('{"schema": 0}')
    if needed == "its journal":
        (run / "journal").write_bytes(b"damaged\n" + (run / "journal").read_bytes())
    before = host.left()
    with pytest.raises(StillNeededError):
        host.clean()
    assert host.left() == before


def test_whatever_tells_of_it_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Host(tmp_path, "Upgraded")
    found = find_leftovers(host.runs, host.files)

    def power_cut(path: Path) -> None:
        assert not host.files.stamp(host.backup)
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", power_cut)
    with pytest.raises(KeyboardInterrupt):
        remove(found, host.files, host.root)
    monkeypatch.undo()
    host.clean()
    assert not host.at(STATE_DIRECTORY).exists()


AGENT = "python\0-m\0nodeupgrade.node.agent"
CLEANUP = "python\0-m\0nodeupgrade.node.agent.cleanup"


NODE = "20 1 8:1 /rootfs / rw - ext4 /dev/sda1 rw\n"
OVERLAY = "90 80 0:50 / / rw - overlay overlay rw\n"
HAS = {
    "the node": "91 90 8:1 /rootfs /host ro - ext4 /dev/sda1 rw\n",
    "a directory of the node": "91 90 8:1 /rootfs/home /host ro - ext4 /dev/sda1 rw\n",
    "a pod's": "91 90 8:1 /rootfs /host ro - ext4 /dev/sda1 rw\n",
    "a dead server's": "91 90 0:60 / /host rw - nfs4 10.0.0.9:/ rw,addr=10.0.0.9\n",
    "nothing": "",
    "more than fits": "91 90 8:1 /rootfs /host ro - ext4 /dev/sda1 rw\n" * 23_000,
}


class Services:
    """Shows one unit as active."""

    def __init__(self, active: str = "") -> None:
        self.active = active

    def status(self, unit: str) -> UnitStatus:
        state = "active" if unit == self.active else "inactive"
        return UnitStatus(name=unit, load_state="loaded", active_state=state, sub_state="", main_pid=0)


def mounted(pods: Path, processes: dict[int, str], sees: dict[int, str], active: str = "") -> MountedHost:
    """A node at ``pods/host``; ``sees`` has what each process has at /host: the node, or something else, if anything.

    What a pod has there is in a PID namespace of its own.
    """
    root = pods / "host"
    for pid, command in {1: "/sbin/init", **processes}.items():
        process = root / "proc" / str(pid)
        (process / "ns").mkdir(parents=True)
        (process / "ns/pid").symlink_to("pid:[2]" if sees.get(pid) == "a pod's" else "pid:[1]")
        (process / "ns/mnt").symlink_to(f"mnt:[{pid}]" if pid in sees else "mnt:[1]")
        (process / "cmdline").write_text(f"{command}\0")
        own = [NODE] if pid not in sees else [OVERLAY, HAS[sees[pid]]]
        (process / "mountinfo").write_text("".join(own))
    return replace(host_from_pod(root), services=cast("SystemdManager", Services(active)))


def test_an_agent_on_the_node_is_noticed(tmp_path: Path) -> None:
    sees = {7: "the node", 8: "the node"}
    host = mounted(tmp_path, {1: "/sbin/init", 7: CLEANUP, 8: AGENT}, sees)
    with pytest.raises(StillNeededError, match="an agent runs on this node"):
        cleanup.require_nobody_at_work(host)
    (tmp_path / "host/proc/8/cmdline").unlink()
    cleanup.require_nobody_at_work(host)


@pytest.mark.parametrize("place", [each for each in HAS if each != "the node"])
def test_nobody_holds_up_the_cleanup_with_the_arguments_of_an_agent(tmp_path: Path, place: str) -> None:
    cleanup.require_nobody_at_work(mounted(tmp_path, {8: AGENT}, {8: place}))


def test_nobody_holds_up_the_cleanup_with_what_a_pod_has_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look at a volume of NFS whose server never answers takes for ever, also in the node's PID namespace."""
    host = mounted(tmp_path, {7: AGENT, 8: AGENT}, {7: "a dead server's", 8: "a pod's"})
    looks = {name: getattr(os, name) for name in ("stat", "lstat", "open", "readlink", "scandir", "statvfs")}

    def look(name: str, path: object, *args: object, **more: object) -> object:
        if "/root/host" in str(path):
            raise AssertionError(f"{name} never returns")
        return looks[name](path, *args, **more)

    for name in looks:
        monkeypatch.setattr(os, name, partial(look, name))
    cleanup.require_nobody_at_work(host)
    monkeypatch.undo()
    (tmp_path / "host/proc/1/mountinfo").unlink()
    with pytest.raises(StepFailed, match="cannot read what is mounted on the node"):
        cleanup.require_nobody_at_work(host)


def test_nobody_holds_up_the_cleanup_with_gigabytes_of_arguments(tmp_path: Path) -> None:
    """A process may point its arguments at any memory of its own (PR_SET_MM_MAP), and needs no right for that."""
    host = mounted(tmp_path, {8: AGENT}, {8: "a directory of the node"})
    os.truncate(tmp_path / "host/proc/8/cmdline", LARGEST_READ + 1)
    cleanup.require_nobody_at_work(host)


@pytest.mark.parametrize("unit", UNITS)
def test_an_executor_on_the_node_is_noticed(tmp_path: Path, unit: str) -> None:
    """Its file may be gone, and it may run nevertheless."""
    with pytest.raises(StillNeededError, match=f"{unit} is active"):
        cleanup.require_nobody_at_work(mounted(tmp_path, {1: "/sbin/init"}, {}, active=unit))


def test_its_pods_have_no_token() -> None:
    """They are root on every node at once, so none of them may speak for another one."""
    (daemons,) = yaml.safe_load_all((CHECKOUT / "components" / "cleanup" / "cleanup.yaml").read_text(encoding="utf-8"))
    pod = daemons["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert [volume for volume in pod["volumes"] if volume.keys() & {"projected", "secret"}] == []
