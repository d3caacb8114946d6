"""What only the real containerd can show: crashes, restarts in the middle, and documents it cannot read."""

import time
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from e2e.lab.process import wait_until
from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import MetadataConflict, StepFailed, Transient
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.runtimes.containerd import metadata
from nodeupgrade.node.runtimes.containerd.next_start import ContainerdProgram
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.description import RuntimePlaces
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node.real import CONTAINERD, ContainerdWorld

pytestmark = pytest.mark.e2e

OLD = StoredHashes(container=HashValue("aaaa0000"))
NEW = StoredHashes(container=HashValue("b1"))
LIMIT = 60.0


def served(world: ContainerdWorld, ids: list[ContainerId]) -> set[HashValue | None]:
    inventory = world.runtime.inventory()
    return {c.hashes.container for c in inventory.containers if c.id in ids}


def test_updates_outlive_the_kill_of_containerd_right_after_them(containerd: ContainerdWorld) -> None:
    ids = [containerd.start_container(OLD) for _ in range(3)]
    before = containerd.runtime.inventory(full=True)
    for image in containerd.runtime.before_images(ids).values():
        containerd.runtime.rewrite([(image, NEW)])

    containerd.kill()
    containerd.restart()
    containerd.runtime.wait_until_answering(LIMIT)

    assert served(containerd, ids) == {"b1"}
    after = containerd.runtime.inventory(full=True)
    assert [c.process for c in after.containers] == [c.process for c in before.containers]
    assert after.sandboxes == before.sandboxes


def test_a_pass_cut_off_by_a_kill_is_finished_by_repeating_it(containerd: ContainerdWorld) -> None:
    ids = [containerd.start_container(OLD) for _ in range(3)]
    images = list(containerd.runtime.before_images(ids).values())
    containerd.runtime.rewrite([(images[0], NEW)])
    containerd.kill()
    # Depending on the moment the call is cut off, or finds nobody; both must be told from a verdict.
    with pytest.raises(Transient):
        containerd.runtime.rewrite([(images[1], NEW)])

    containerd.restart()
    containerd.runtime.wait_until_answering(LIMIT)
    for image in images:
        containerd.runtime.rewrite([(image, NEW)])

    assert {image.hashes.container for image in containerd.runtime.before_images(ids).values()} == {"b1"}


def test_readings_wait_out_a_restart(containerd: ContainerdWorld) -> None:
    container_id = containerd.start_container(OLD)
    before = containerd.runtime.inventory()
    earlier = containerd.unit.main_pid

    def read_until_restarted() -> bool:
        assert containerd.runtime.before_images([container_id])[container_id].hashes == OLD
        return containerd.unit.main_pid not in (earlier, 0)

    containerd.node.exec("systemctl", "restart", "--no-block", CONTAINERD)

    wait_until("containerd has restarted", read_until_restarted, LIMIT, interval=0)
    containerd.runtime.wait_until_answering(LIMIT)
    assert containerd.runtime.inventory() == before


def test_a_containerd_that_is_down_is_waited_for_as_long_as_told(containerd: ContainerdWorld) -> None:
    containerd.services.stop(CONTAINERD)
    began = time.monotonic()
    try:
        with pytest.raises(Transient, match="did not answer within 1 s"):
            containerd.runtime.wait_until_answering(1)
    finally:
        containerd.services.start(CONTAINERD)
    assert 1 <= time.monotonic() - began < LIMIT


@pytest.mark.parametrize(
    ("type_url", "damage"),
    [
        (metadata.TYPE_URL, lambda data: data[:-5]),
        (metadata.TYPE_URL, lambda _data: b""),
        (f"type.googleapis.com/{metadata.TYPE_URL}", lambda data: data),
        (metadata.TYPE_URL, lambda data: data.replace(b'"Version":"v1"', b'"Version":"v9"')),
        (
            metadata.TYPE_URL,
            lambda data: data.replace(b'"annotations":{', b'"annotations":{"io.kubernetes.container.hash":"aaaa0000",'),
        ),
    ],
    ids=["truncated", "empty", "another type", "another version", "the hash twice"],
)
def test_odd_metadata_is_refused_and_left_alone(
    containerd: ContainerdWorld, type_url: str, damage: Callable[[bytes], bytes]
) -> None:
    container_id = containerd.start_container(OLD)
    image = containerd.runtime.before_images([container_id])[container_id]
    containerd.write(container_id, type_url, damage(image.data))
    record = containerd.record(container_id)

    with pytest.raises(UnexpectedMetadata, match=container_id):
        containerd.runtime.before_images([container_id])
    with pytest.raises(MetadataConflict):
        containerd.runtime.rewrite([(image, NEW)])
    with pytest.raises(MetadataConflict):
        containerd.runtime.restore(image)

    assert containerd.record(container_id) == record
    containerd.write(container_id, image.encoding, image.data)


def test_a_rewrite_changes_the_extension_of_the_record_and_nothing_else(containerd: ContainerdWorld) -> None:
    container_id = containerd.start_container(OLD)
    before = containerd.record(container_id)

    containerd.runtime.rewrite([(containerd.runtime.before_images([container_id])[container_id], NEW)])

    after = containerd.record(container_id)
    stored = before.extensions[metadata.EXTENSION]
    stored.value = stored.value.replace(b'"aaaa0000"', b'"b1"')
    before.updated_at.CopyFrom(after.updated_at)
    assert after == before


def test_the_shim_is_the_monitor_and_its_loss_is_seen(containerd: ContainerdWorld) -> None:
    container_id = containerd.start_container(OLD)
    container = containerd.runtime.inventory().container(container_id)
    assert container is not None
    sandbox = containerd.runtime.inventory().sandbox(container.sandbox_id)
    assert sandbox is not None
    assert sandbox.monitor is not None
    assert "containerd-shim" in (containerd.processes.arguments(sandbox.monitor.pid) or ("",))[0]

    containerd.node.exec("kill", "-KILL", str(sandbox.monitor.pid))

    def seen() -> bool:
        after = containerd.runtime.inventory().sandbox(container.sandbox_id)
        return after is None or after.monitor is None

    wait_until("the loss of the shim to be seen", seen, timeout=10)  # on a busy machine a process dies slowly


def test_who_answers_and_from_where(containerd: ContainerdWorld) -> None:
    info, unit = containerd.runtime.info(), containerd.services.status(CONTAINERD)
    files = HostFiles(containerd.node.root)

    assert info.process is not None
    assert (info.process.pid, info.process.words) == (unit.main_pid, ("/usr/bin/containerd",))
    assert info.process.program == files.digest(PurePosixPath(unit.program))
    assert info.places == RuntimePlaces(
        root="/var/lib/containerd", state="/run/containerd", address="/run/containerd/containerd.sock"
    )
    assert info.images is not None
    assert PurePosixPath(info.places.root) in PurePosixPath(info.images).parents


def test_a_configuration_that_cannot_be_read_is_told_from_one_that_can(containerd: ContainerdWorld) -> None:
    program = ContainerdProgram(tuple(containerd.node.command()))

    shown = program.configuration(("/usr/bin/containerd", "--config", "/dev/stdin"), b'version = 2\nroot = "/x"\n')
    assert shown is not None
    assert shown["root"] == "/x"
    for broken in (b"version = = 2\n", b"version = 2\nroot = 5\n"):
        with pytest.raises(StepFailed, match=r"containerd: "):
            program.configuration(("/usr/bin/containerd", "--config", "/dev/stdin"), broken)
    with pytest.raises(StepFailed):
        program.configuration(("/nowhere/containerd",))


def test_what_was_asked_for_is_told_from_what_ended_by_itself(containerd: ContainerdWorld) -> None:
    """As told by containerd's log in the node's journal, which is all that the verification has to go by."""

    def asked() -> frozenset[str] | None:
        return containerd.runtime.asked_to_stop(containerd.services.log(CONTAINERD))

    containerd.restart()
    containerd.runtime.wait_until_answering(LIMIT)
    stopped, killed, left = (containerd.start_container(OLD) for _ in range(3))
    sandboxes = {c.id: c.sandbox_id for c in containerd.runtime.inventory().containers}
    process = next(c.process for c in containerd.runtime.inventory().containers if c.id == killed)
    assert process is not None
    containerd.node.exec("kill", "-KILL", str(process.pid))
    containerd.remove_container(stopped)

    deadline = time.monotonic() + LIMIT
    while not asked() and time.monotonic() < deadline:
        time.sleep(0.1)

    told = asked()
    assert told is not None
    assert {stopped, sandboxes[stopped]} <= told
    assert not {killed, sandboxes[killed], left, sandboxes[left]} & told
