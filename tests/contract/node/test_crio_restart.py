"""How CRI-O would come back from a restart, and what that would cost, on recorded storage."""

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.crio.crio import CrioRuntime
from nodeupgrade.node.runtimes.crio.daemon import silent_clients
from nodeupgrade.node.runtimes.description import NextStart, RestartHazards, RuntimeAtWork
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node.crio_server import VERSION
from tests.contract.node.crio_world import PRINTED, PROGRAM, CrioWorld

OLD = StoredHashes(container=HashValue("aaaa0000"))
COMMENTED_HANDLERS = """
# [crio.runtime.runtimes.runtime-handler]
# runtime_path = "/path/to/the/executable"
# runtime_root = "/path/to/the/root"
# [crio.runtime.runtimes.runc]
# runtime_path = ""
# runtime_type = "oci"
# runtime_root = "/run/runc"
# inherit_default_runtime = false
"""
HEIR = """
[crio.runtime.runtimes.heir]
runtime_path = ""
runtime_root = ""
inherit_default_runtime = true
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CrioWorld]:
    made = CrioWorld(tmp_path)
    yield made
    made.close()


def next_start(world: CrioWorld) -> NextStart:
    return world.runtime.next_start(world.unit, world.runtime.info().process)


def test_the_storage_and_its_driver_are_told_by_the_daemon(world: CrioWorld) -> None:
    info = world.runtime.info()

    assert info.places is not None
    assert info.places.root == "/graph/overlay-containers"
    assert (info.binary_version, info.cgroup_driver) == (info.version, "systemd")
    assert next_start(world).files[0] == "/etc/crio/crio.conf"


@pytest.mark.parametrize(
    ("old", "new"), [("/graph", "/elsewhere"), ('# storage_driver = "overlay"', 'storage_driver = "vfs"')]
)
def test_another_storage_on_disk_is_another_place(world: CrioWorld, old: str, new: str) -> None:
    world.print(world.printed.replace(old, new))

    found = next_start(world)

    assert found.complaint == ""
    assert found.places is not None
    assert found.places != world.runtime.info().places


def test_another_default_runtime_would_end_every_container(world: CrioWorld) -> None:
    world.print(PRINTED.format(root="/graph", handler="crun"))

    found = next_start(world)

    assert found.places is None
    assert "default_runtime would be crun instead of runc" in found.complaint
    assert "no runtime handler runc" in found.complaint


@pytest.mark.parametrize(
    "change",
    [
        ('runtime_root = "/run/runc"', 'runtime_root = "/run/elsewhere"'),
        ('runtime_root = "/run/runc"', 'runtime_root = ""'),
        ("[crio.runtime.runtimes.runc]", "[crio.runtime.runtimes.crun]"),
    ],
)
def test_where_a_handler_would_look_elsewhere_every_container_would_end(
    world: CrioWorld, change: tuple[str, str]
) -> None:
    """Not a changed file that a restart would put right: the restart is what does the harm."""
    assert next_start(world).complaint == ""
    world.print(world.printed.replace(*change))

    found = next_start(world)

    assert found.places is None
    assert "runtime handler runc" in found.complaint


def test_a_setting_that_has_its_default_is_compared_too(world: CrioWorld) -> None:
    """The program prints it as a comment."""
    world.print(world.printed[: world.printed.index("[crio.runtime.runtimes")] + COMMENTED_HANDLERS)
    assert next_start(world).complaint == ""

    world.runs = world.runs.replace("/run/runc", "/run/elsewhere")

    assert "would be /run/runc instead of /run/elsewhere" in next_start(world).complaint


def test_a_handler_that_inherits_is_compared_as_what_it_inherits(world: CrioWorld) -> None:
    world.runs += '      [crio.runtime.runtimes.heir]\n        runtime_path = ""\n        runtime_root = "/run/runc"\n'
    world.print(world.printed + HEIR)

    assert next_start(world).complaint == ""


def test_the_directory_of_hooks_is_made_by_the_runtime_itself(world: CrioWorld) -> None:
    assert next_start(world).makes == ("/usr/share/containers/oci",)
    assert "/usr/share/containers/storage.conf" in next_start(world).files


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[crio", "does not show its configuration (TOMLDecodeError"),
        ("[crio]\n", "does not show its configuration (KeyError"),
    ],
)
def test_a_configuration_that_cannot_be_read_is_said(world: CrioWorld, text: str, complaint: str) -> None:
    world.print(text)

    assert complaint in next_start(world).complaint
    assert next_start(world).places is None


def test_a_program_that_fails_is_quoted(world: CrioWorld) -> None:
    (world.root / "etc/crio/crio.conf").unlink()

    assert next_start(world).complaint.startswith("asked for its configuration, it says: cat: ")


def test_where_systemd_expands_the_command_the_process_is_asked(world: CrioWorld) -> None:
    unit = replace(world.unit, command=())

    found = world.runtime.next_start(unit, world.runtime.info().process)

    assert (found.as_it_runs, found.program, found.complaint) == (True, PROGRAM, "")
    other = replace(world.unit, command=(PROGRAM, "--config", "/etc/other.conf"))
    assert not world.runtime.next_start(other, world.runtime.info().process).as_it_runs


def test_a_daemon_that_makes_no_sense_is_a_clear_error(world: CrioWorld) -> None:
    world.runs = "[crio]\n"

    with pytest.raises(StepFailed, match="cannot read the configuration of CRI-O"):
        world.runtime.info()


# ── hazards ──────────────────────────────────────────────────────────────────


def hazards(world: CrioWorld, *, kill_mode: str = "control-group") -> RestartHazards:
    runtime: CrioRuntime = world.runtime
    return runtime.restart_hazards(
        RuntimeAtWork(
            info=runtime.info(),
            unit=replace(world.unit, kill_mode=kill_mode),
            inventory=runtime.inventory(full=True),
            listing_seconds=0.0,
        )
    )


@pytest.fixture
def well(world: CrioWorld) -> ContainerId:
    """A running container on a node where nothing is wrong."""
    program = world.root / "usr/sbin/runc"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    return world.start_container(OLD)


def within(world: CrioWorld, container_id: ContainerId, group: str) -> None:
    """Have a container's conmon live in a control group, as far as the node's /proc says."""
    seen = world.runtime.inventory(full=True).container(container_id)
    assert seen is not None
    assert seen.monitor is not None
    file = world.root / f"proc/{seen.monitor.pid}/cgroup"
    file.parent.mkdir(parents=True)
    file.write_text(f"5:memory:/kubepods/pod1/crio-conmon-{container_id}\n1:name=systemd:{group}\n0::/\n")


def test_nothing_is_wrong_with_a_node_that_is_well(world: CrioWorld, well: ContainerId) -> None:
    within(world, well, f"/system.slice/crio-conmon-{well}.scope")

    assert hazards(world) == RestartHazards()


@pytest.mark.parametrize("noted", [None, "", '"1.0.0"', "junk"])
def test_a_version_that_is_noted_no_more_would_cost_every_pod(
    world: CrioWorld, well: ContainerId, noted: str | None
) -> None:
    """CRI-O takes the node for rebooted, and removes what it had: ``wipeIfAppropriate`` of 1.25 and later."""
    within(world, well, f"/system.slice/crio-conmon-{well}.scope")
    shown = '[crio]\n  internal_wipe = true\n  version_file = "/run/crio/version"\n  version_file_persist = ""\n'
    file = world.root / "run/crio/version"
    file.parent.mkdir(parents=True)
    assert hazards(world) == RestartHazards(), "one that does not wipe has none"
    world.runs = world.runs.replace("[crio]\n", shown)
    file.write_text(f'"{VERSION}"')
    assert hazards(world) == RestartHazards()

    file.unlink() if noted is None else file.write_text(noted)
    [finding] = hazards(world).runtime

    assert finding.reason is Reason.RUNTIME_NOT_READY
    assert finding.detail.startswith("/run/crio/version does not name version ")
    world.runs = world.runs.replace("internal_wipe = true", "internal_wipe = false")
    assert hazards(world) == RestartHazards()


@pytest.mark.parametrize("path", ["var/log/crio", "var/log/crio/pods"])
@pytest.mark.parametrize("put", [Path.touch, partial(Path.symlink_to, target="nowhere")])
def test_a_directory_for_logs_that_it_cannot_make_would_keep_it_from_starting(
    world: CrioWorld, well: ContainerId, path: str, put: Callable[[Path], None]
) -> None:
    within(world, well, f"/system.slice/crio-conmon-{well}.scope")
    place = world.root / path
    place.parent.mkdir(parents=True)
    put(place)

    [finding] = hazards(world).runtime

    assert finding.reason is Reason.RUNTIME_NOT_READY
    assert finding.detail.startswith(f"/{path} is ")
    place.unlink()
    place.mkdir()
    assert hazards(world) == RestartHazards()


def test_a_client_that_makes_no_call_would_keep_it_from_stopping(world: CrioWorld, well: ContainerId) -> None:
    """It waits for such a client until systemd kills it, and the kubelet would be down for as long."""
    within(world, well, f"/system.slice/crio-conmon-{well}.scope")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(world.socket))

        [finding] = hazards(world).runtime

    assert finding.reason is Reason.RUNTIME_NOT_READY
    assert "1 client is connected to CRI-O without having made a call" in finding.detail
    assert hazards(world) == RestartHazards(), "it has left"


def test_a_client_that_is_about_to_make_a_call_keeps_nobody(world: CrioWorld) -> None:
    with socket.socket(socket.AF_UNIX) as late:
        late.connect(str(world.socket))
        calls = threading.Timer(0.1, late.sendall, (b"GET /info HTTP/1.1\r\n\r\n",))
        calls.start()

        found = silent_clients(world.socket, patience=1.0)
        calls.join()

    assert found == 0


def test_a_daemon_that_does_not_show_its_goroutines_is_not_held_back(world: CrioWorld) -> None:
    assert world.server is not None
    world.server.shows_goroutines = False
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(world.socket))

        assert silent_clients(world.socket) == 0


@pytest.mark.parametrize(("kill_mode", "harms"), [("control-group", True), ("mixed", True), ("process", False)])
def test_a_conmon_in_the_units_own_group_dies_with_it(
    world: CrioWorld, well: ContainerId, kill_mode: str, harms: bool
) -> None:
    within(world, well, "/system.slice/crio.service")

    found = hazards(world, kill_mode=kill_mode).unit

    assert [f"KillMode={kill_mode}" in finding.detail for finding in found] == [True] * harms


def test_a_container_without_a_conmon_is_refused(world: CrioWorld, well: ContainerId) -> None:
    world.kill_conmon(well)

    [found] = hazards(world).runtime
    assert (found.subject, "has no conmon" in found.detail) == ("contract/pod0/main", True)


def test_a_handler_that_is_gone_would_end_every_container(world: CrioWorld, well: ContainerId) -> None:
    (world.root / "usr/sbin/runc").chmod(0o644)

    [found] = hazards(world).runtime
    assert well
    assert "/usr/sbin/runc, the program of runtime handler runc, cannot be executed" in found.detail


@pytest.mark.parametrize(("what", "lacks"), [("containers", "no record of it"), ("layers", "no record of its layer")])
def test_a_storage_with_a_hole_is_not_restarted(world: CrioWorld, well: ContainerId, what: str, lacks: str) -> None:
    path = world.storage.root / f"overlay-{what}/{what}.json"
    whole = path.read_text()
    path.write_text("[]")

    [found] = hazards(world).runtime

    assert lacks in found.detail
    path.write_text("[{}]")
    assert "cannot read the records" in hazards(world).runtime[0].detail
    path.write_text("[]")
    path.with_name(f"volatile-{what}.json").write_text(whole)
    assert hazards(world).runtime == (), "it may be in the volatile list"
