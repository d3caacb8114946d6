"""Tests that a rollback leaves state files alone, unless the old kubelet could not read them; on real files."""

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.layout import CLAIM_STATE, CPU_STATE, DEVICE_STATE, SOCKETS, STATUS_STATE
from nodeupgrade.kubelet.state_files.device_checkpoint import read_devices
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import kubelet_sockets
from nodeupgrade.node.run.steps.actions import Unreversed
from nodeupgrade.node.run.steps.order import STEPS
from tests.builders.admitted import checkpoint
from tests.builders.followed_links import watched_link
from tests.builders.planned_run import planned
from tests.builders.state_file_cases import sealed

ROOT = Path("var/lib/kubelet")
SAVE = STEPS[Step.SAVE_STATE]
FIRST, SECOND = (
    f'{{"policyName":"none","defaultCpuSet":"","checksum":{checksum}}}'.encode()
    for checksum in (3242152201, 1353318690)
)


def entry(pod: str, ids: Any) -> dict[str, Any]:
    return {"PodUID": pod, "ContainerName": "app", "ResourceName": "gpu", "DeviceIDs": ids, "AllocResp": "YQ=="}


def devices(*entries: dict[str, Any]) -> bytes:
    return checkpoint({"PodDeviceEntries": [*entries], "RegisteredDevices": {"gpu": ["0", "1"]}})


BEFORE, CAME = devices(entry("was", {"0": ["0"]})), devices(entry("was", {"0": ["0"]}), entry("came", {"0": ["1"]}))


class Machine:
    """The disk of a node, and a plan for its upgrade."""

    def __init__(self, root: Path, old: str, new: str, *names: str) -> None:
        node, plan = planned()
        self.root = root
        self.ports: Node = replace(node.ports, files=HostFiles(root))
        paths = tuple(f"/{ROOT}/{name}" for name in names)
        self.plan: RunPlan = replace(plan, from_version=old, to_version=new, state_files=paths)
        (root / ROOT / "device-plugins").mkdir(parents=True)
        (root / "ca.key").write_bytes(b"secret")
        (root / "ca.key").chmod(0o600)

    def path(self, name: str) -> Path:
        return self.root / ROOT / name

    def save(self) -> dict[str, Any]:
        return SAVE.prepare(self.ports, self.plan)

    def restore(self, payload: dict[str, Any]) -> str | None:
        said = SAVE.undo(self.ports, self.plan, payload)
        assert SAVE.undo(self.ports, self.plan, payload) is None, "the second time nothing is left to say or do"
        assert not isinstance(said, Unreversed)
        return said


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "v1.30.14", "v1.33.13", CPU_STATE, DEVICE_STATE)


@pytest.mark.parametrize(
    ("versions", "name", "before", "after"),
    [
        ("v1.30.14 v1.33.13", DEVICE_STATE, BEFORE, CAME),
        ("v1.30.14 v1.33.13", DEVICE_STATE, None, CAME),
        ("v1.20.15 v1.24.17", CPU_STATE, SECOND, SECOND.replace(b'"checksum"', b'"entries":{},"checksum"')),
        ("v1.33.13 v1.34.1", CLAIM_STATE, b'{"Data":"{}","Checksum":2745614147}', b'{"Data":"","Checksum":0}'),
        ("v1.32.0 v1.33.0", STATUS_STATE, None, sealed("{}")),
    ],
)
def test_what_the_old_kubelet_can_read_stays(
    tmp_path: Path, versions: str, name: str, before: bytes | None, after: bytes
) -> None:
    it = Machine(tmp_path, *versions.split(), name)
    if before is not None:
        it.path(name).write_bytes(before)
    payload = it.save()
    it.path(name).write_bytes(after)
    inode = it.path(name).stat().st_ino

    assert it.restore(payload) is None
    assert (it.path(name).read_bytes(), it.path(name).stat().st_ino) == (after, inode)


@pytest.mark.parametrize(
    ("versions", "name", "before", "after"),
    [
        ("v1.17.17 v1.18.20", CPU_STATE, FIRST, SECOND),
        ("v1.30.14 v1.33.13", CPU_STATE, SECOND, SECOND[:20]),
        ("v1.30.14 v1.33.13", CPU_STATE, SECOND, None),
        ("v1.35.4 v1.36.1", CPU_STATE, SECOND, SECOND[:-1] + b',"podEntries":{}}'),
        ("v1.30.14 v1.33.13", DEVICE_STATE, BEFORE, BEFORE.replace(b"gpu", b"cpu")),
        ("v1.30.14 v1.31.1", CLAIM_STATE, None, b'{"Data":"","Checksum":0}'),
        ("v1.31.1 v1.32.0", STATUS_STATE, None, sealed("{}")),
    ],
)
def test_what_it_cannot_read_is_as_it_was(
    tmp_path: Path, versions: str, name: str, before: bytes | None, after: bytes | None
) -> None:
    it = Machine(tmp_path, *versions.split(), name)
    if before is not None:
        it.path(name).write_bytes(before)
    payload = it.save()
    it.path(name).unlink(missing_ok=True)
    if after is not None:
        it.path(name).write_bytes(after)

    assert it.restore(payload) is None
    assert (it.path(name).read_bytes() if it.path(name).exists() else None) == before


def test_devices_of_pods_that_came_are_known_in_the_old_format_too(tmp_path: Path) -> None:
    it = Machine(tmp_path, "v1.19.16", "v1.20.15", DEVICE_STATE)
    it.path(DEVICE_STATE).write_bytes(devices(entry("was", ["0"])))
    payload = it.save()
    it.path(DEVICE_STATE).write_bytes(CAME)

    it.restore(payload)

    assert (
        json.loads(it.path(DEVICE_STATE).read_bytes())["Data"]
        == json.loads(devices(entry("was", ["0"]), entry("came", ["1"])))["Data"]
    )
    found = read_devices(it.path(DEVICE_STATE).read_bytes())
    assert found is not None
    assert found.flat
    assert {pod for pod, _, _ in found.holdings} == {"was", "came"}


def test_a_link_to_a_secret_is_not_read_and_the_run_turns_back(machine: Machine) -> None:
    machine.path(DEVICE_STATE).symlink_to("../../../../ca.key")

    with pytest.raises(StepFailed, match=r"kubelet_internal_checkpoint because it is a symbolic link"):
        machine.save()


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 400 * 1024**2)


def second_name(path: Path) -> None:
    path.write_bytes(CAME)
    (path.parent / "x").hardlink_to(path)


@pytest.mark.parametrize("put", [lambda path: path.symlink_to("../../../../ca.key"), os.mkfifo, sparse, second_name])
def test_what_lies_in_place_of_a_file_is_replaced_and_reported(machine: Machine, put: Callable[[Path], object]) -> None:
    machine.path(DEVICE_STATE).write_bytes(BEFORE)
    payload = machine.save()
    machine.path(DEVICE_STATE).unlink()
    put(machine.path(DEVICE_STATE))

    said = machine.restore(payload)

    assert said is not None
    assert said.startswith(f"cannot read /{ROOT}/{DEVICE_STATE} because ")
    assert said.endswith("it was replaced by what was there before the new kubelet")
    assert machine.path(DEVICE_STATE).read_bytes() == BEFORE
    assert machine.path(DEVICE_STATE).lstat().st_mode & 0o7777 == 0o600
    assert (machine.root / "ca.key").read_bytes() == b"secret"


def test_a_directory_in_its_place_is_moved_aside(machine: Machine) -> None:
    """A pod can make one, and no kubelet starts with one in place of some of these files."""
    machine.path(DEVICE_STATE).write_bytes(BEFORE)
    payload = machine.save()
    machine.path(DEVICE_STATE).unlink()
    (machine.path(DEVICE_STATE) / "theirs").mkdir(parents=True)

    said = SAVE.undo(machine.ports, machine.plan, payload)

    aside = machine.path(DEVICE_STATE).with_name(".kubelet_internal_checkpoint.nodeupgrade-aside")
    assert isinstance(said, str)
    assert said.endswith(f"it was moved to /{aside.relative_to(machine.root)}")
    assert (aside / "theirs").is_dir()
    assert machine.path(DEVICE_STATE).read_bytes() == BEFORE


@pytest.mark.parametrize("ids", [{"1": ["a"], "01": {"b": 1}}, {"1": 2}, [[]]])
def test_no_content_ends_the_rollback(machine: Machine, ids: Any) -> None:
    machine.path(DEVICE_STATE).write_bytes(BEFORE)
    payload = machine.save()
    written = {"Data": {"PodDeviceEntries": [entry("came", ids)], "RegisteredDevices": {}}, "Checksum": 1}
    machine.path(DEVICE_STATE).write_text(json.dumps(written))

    machine.restore(payload)

    assert machine.path(DEVICE_STATE).read_bytes() == BEFORE


def test_a_mode_that_a_pod_has_chosen_is_not_taken_over(machine: Machine) -> None:
    machine.path(DEVICE_STATE).write_bytes(BEFORE)
    payload = machine.save()
    machine.path(DEVICE_STATE).write_bytes(b"{")
    machine.path(DEVICE_STATE).chmod(0o666)

    machine.restore(payload)

    assert machine.path(DEVICE_STATE).stat().st_mode & 0o7777 == 0o600


def test_a_file_is_made_where_pods_cannot_write(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.path(DEVICE_STATE).write_bytes(BEFORE)
    payload = machine.save()
    machine.path(DEVICE_STATE).write_bytes(b"{")
    made: list[tuple[str, str]] = []
    rename = os.rename

    def note(old: Path, new: Path) -> None:
        made.append((str(old), str(new)))
        rename(old, new)

    monkeypatch.setattr(os, "rename", note)

    machine.restore(payload)

    assert made == [
        (str(machine.path(".kubelet_internal_checkpoint.nodeupgrade-new")), str(machine.path(DEVICE_STATE)))
    ]
    assert f"/{ROOT}/kubelet_internal_checkpoint" in machine.plan.files(), "what a crash leaves is removed"
    assert PurePosixPath(f"/{ROOT}/{DEVICE_STATE}") not in map(PurePosixPath, machine.plan.files())


def test_what_is_kept_of_a_state_file_is_a_copy_since_a_second_name_would_make_it_somebody_elses(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, "v1.30.14", "v1.31.1", CLAIM_STATE)
    machine.path(CLAIM_STATE).write_bytes(b"old")
    saved = machine.save()

    SAVE.do(machine.ports, machine.plan, saved)

    assert machine.path(CLAIM_STATE).stat().st_nlink == 1
    assert Path(f"{tmp_path}{machine.plan.kept()[f'/{ROOT}/{CLAIM_STATE}']}").read_bytes() == b"old"
    assert machine.restore(saved) is None


def listen(path: Path) -> None:
    """Make a socket as a kubelet does, which removes old ones only."""
    before = Path.cwd()
    os.chdir(path.parent)  # its name may be longer than an address
    try:
        with socket.socket(socket.AF_UNIX) as it:
            it.bind(path.name)
    finally:
        os.chdir(before)


def directory(path: Path) -> None:
    path.mkdir()
    (path / "theirs").touch()


@pytest.mark.parametrize("name", SOCKETS)
@pytest.mark.parametrize(
    ("put", "kind", "became"),
    [
        (directory, "a directory", "moved to /var/lib/kubelet/"),
        (Path.touch, "a regular file", "removed"),
        (os.mkfifo, "not a regular file", "removed"),
        *(
            (partial(Path.symlink_to, target=to), "a symbolic link", "removed")
            for to in ("kubelet.sock", "x" * 300, "/nowhere", "there", "..")
        ),
    ],
)
def test_whatever_is_no_socket_is_put_out_of_a_kubelets_way(
    machine: Machine, name: str, put: Callable[[Path], None], kind: str, became: str
) -> None:
    place = machine.path(name)
    place.parent.mkdir(exist_ok=True)
    listen(place.with_name("there"))
    put(place)
    with pytest.raises(StepFailed, match=f"{name} is {kind}, where a starting kubelet makes a socket"):
        kubelet_sockets.require_replaceable(machine.ports, machine.plan)

    said = kubelet_sockets.make_way(machine.ports, machine.plan)

    assert said is not None
    assert said.startswith(f"what lay at /{ROOT}/{name}, which is no socket, was {became}")
    listen(place)
    kubelet_sockets.require_replaceable(machine.ports, machine.plan)
    assert kubelet_sockets.make_way(machine.ports, machine.plan) is None
    assert place.is_socket()


@pytest.mark.parametrize("name", [*SOCKETS, "device-plugins/theirs.sock"])
def test_no_link_is_followed_or_left_to_a_kubelet_where_pods_can_write(
    machine: Machine, tmp_path: Path, name: str
) -> None:
    place = machine.path(name)
    place.parent.mkdir(exist_ok=True)
    was_followed = watched_link(place, tmp_path / "second name")

    with suppress(StepFailed):
        kubelet_sockets.require_replaceable(machine.ports, machine.plan)
    said = kubelet_sockets.make_way(machine.ports, machine.plan)

    assert not was_followed()
    assert said is not None
    assert list(place.parent.iterdir()) == []
