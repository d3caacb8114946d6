"""An agent that is asked to look only: what it says comes true, and the node does not notice."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import HashMode
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact
from nodeupgrade.api.task.status import Preview, TaskPhase, TaskStatus
from nodeupgrade.api.values import PodUid, RunId
from nodeupgrade.cluster.agent_pods import KUBELET_FROM_IMAGE, volume_on_node
from nodeupgrade.cluster.kube_api import RejectedError
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.host.files.files import DiskUsage
from tests.doubles.node import manifest, pod_json
from tests.doubles.node.kubelet import FLAG_REMOVED_IN_1_27, PROGRAM, program
from tests.scenario.agent.harness import NEW, OLD, RUN, SOURCE, Killed, World, make_world, untouched

VARIED = (
    pod_json("web", "nginx", "log"),
    pod_json("mesh", "app", sidecars=("proxy",), ephemeral=("debug",)),
    pod_json("job", "work", restart_policy="Never"),
)
PINNED = manifest("pinned", "kept").replace(b"  name: pinned\n", b"  name: pinned\n  uid: kept-as-it-is\n")
MANIFESTS = {"etcd.yaml": manifest("etcd", "etcd", "metrics"), "pinned.yaml": PINNED}
PAIRS = [
    ("v1.15.0", "v1.17.17"),
    ("v1.17.17", "v1.20.15"),
    ("v1.20.15", "v1.33.13"),
    ("v1.30.13", "v1.30.14"),
    ("v1.30.14", "v1.31.0"),
    ("v1.30.14", "v1.33.13"),
    ("v1.31.9", "v1.32.0"),
    ("v1.33.13", "v1.30.14"),
]

Make = Callable[[str, str], World]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    numbers = iter(range(10))

    def make(old: str, new: str) -> World:
        root = tmp_path / str(next(numbers))
        root.mkdir()
        world = make_world(root, monkeypatch, old=old, new=new, pods=VARIED, manifests=MANIFESTS)
        world.kube.wish(action=TaskAction.PRECHECK, allow_downgrade=True)
        return world

    return make


async def precheck(world: World) -> TaskStatus:
    """Let the agent look, and see to it that the node is in every respect what it was."""
    world.kube.wish(action=TaskAction.PRECHECK)
    before = world.everything()
    status = await world.serve()
    after = world.everything()
    assert {what for what, seen in before.items() if after[what] != seen} == set()
    assert status.finished_at is not None
    return status


def previewed(status: TaskStatus) -> Preview:
    assert (status.phase, status.reason) == (TaskPhase.PRECHECKED, Reason.PRECHECKED), status.message
    assert status.preview is not None
    return status.preview


def swap_naively(world: World) -> list[str]:
    """Exchange the kubelet's program and nothing else, and return what it restarted."""
    new = world.node.disk[SOURCE]
    world.node.services.stop("kubelet.service")
    world.node.disk[PROGRAM] = new
    world.node.services.start("kubelet.service")
    world.node.timeline.advance(5)
    assert world.node.kubelet.healthy()
    return sorted(world.node.kubelet.replaced)


@pytest.mark.parametrize(("old", "new"), PAIRS)
async def test_what_is_forecast_is_what_a_naive_swap_restarts(make: Make, old: str, new: str) -> None:
    world = make(old, new)

    found = previewed(await precheck(world))

    assert [each.container for each in found.would_restart_list] == swap_naively(world)
    assert found.would_restart == len(found.would_restart_list)
    assert all(1 < len(each.why) <= 256 for each in found.would_restart_list)


@pytest.mark.parametrize(("old", "new"), [("v1.20.15", "v1.33.13"), ("v1.30.13", "v1.30.14"), ("v1.31.9", "v1.32.0")])
async def test_what_is_announced_is_what_a_run_does(make: Make, old: str, new: str) -> None:
    world = make(old, new)
    found = previewed(await precheck(world))
    before = dict(world.node.disk)

    world.settings = replace(world.settings, run_id=RunId("0123abcd-2"))
    world.kube.wish(run_id=world.settings.run_id, action=TaskAction.UPGRADE)
    status = await world.serve()

    assert (status.phase, status.preview) == (TaskPhase.SUCCEEDED, None), status.message
    counts = status.containers
    assert (found.rewritten, found.rewritten + found.unchanged) == (counts.rewritten, counts.baseline)
    manifests = {path for path in before if path.startswith("/etc/kubernetes/manifests/")}
    assert found.static_pods == sum(world.node.disk[path] != before[path] for path in manifests)
    assert world.restarted == []


async def test_why_is_told_in_words(make: Make) -> None:
    whys = {
        each.container: each.why for each in previewed(await precheck(make("v1.30.14", "v1.33.13"))).would_restart_list
    }

    hashed = "kubelet 1.30 hashes the container's whole JSON, kubelet 1.33 hashes only the name and the image"
    assert whys["default/web/log"].startswith(hashed)
    assert whys["default/mesh/proxy"].startswith(f"kubelet 1.33 compares sidecars too; {hashed}")
    assert whys["default/etcd-node-a/etcd"].startswith("kubelet 1.33 gives its static pod another UID, since")
    assert f"besides, {hashed}" in whys["default/etcd-node-a/etcd"]
    assert "UID" not in whys["default/pinned-node-a/kept"]
    assert "default/mesh/debug" not in whys


async def test_flags_that_would_go_are_listed(make: Make) -> None:
    world = make("v1.26.15", "v1.33.13")
    process = world.node.kubelet.process
    assert process is not None
    process.arguments = world.node.services.unit.arguments = (*process.arguments, FLAG_REMOVED_IN_1_27)

    assert previewed(await precheck(world)).removed_flags == ("--container-runtime",)


async def test_a_flag_that_is_needed_on_the_way_back_is_listed(make: Make) -> None:
    world = make("v1.24.17", "v1.23.17")
    process = world.node.kubelet.process
    assert process is not None
    endpoint = "--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
    process.arguments = world.node.services.unit.arguments = (*process.arguments, endpoint)
    world.kube.wish(allow_downgrade=True)

    assert previewed(await precheck(world)).added_flags == ("--container-runtime=remote",)


async def test_the_list_is_short_and_the_number_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = tuple(pod_json(f"web-{number}", "nginx") for number in range(25))
    world = make_world(tmp_path, monkeypatch, pods=pods, manifests={})

    found = previewed(await precheck(world))

    assert (found.would_restart, len(found.would_restart_list)) == (25, 20)


async def test_everything_that_objects_is_told_at_once(world: World) -> None:
    """Without the new kubelet everything else is still looked at."""
    world.node.disk[SOURCE] = b"kubelet v1.33.13 with a twist"
    victims = sorted(stored.instance.label for stored in world.node.runtime.containers.values())
    for container in world.node.runtime.containers:
        world.node.runtime.serve(container, HashValue("bad"))

    status = await precheck(world)

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.DIGEST_MISMATCH)
    assert [(hazard.reason, hazard.pod) for hazard in status.hazards[:1]] == [(Reason.DIGEST_MISMATCH, "")]
    found = {h.check: {h.pod, *h.others} for h in status.hazards if h.reason == Reason.STORED_HASH_NOT_REPRODUCED}
    assert set().union(*found.values()) == set(victims)
    assert "and 2 more" in status.message
    assert status.preview is not None
    assert [each.container for each in status.preview.would_restart_list] == victims


@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
async def test_a_node_whose_hashes_must_stay_is_refused_where_they_would_not(world: World, action: TaskAction) -> None:
    world.kube.wish(hash_mode=HashMode.ASSERT_UNCHANGED, action=action)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.HASHES_WOULD_CHANGE)
    (hazard,) = status.hazards
    assert hazard.pod == "default/web/nginx"
    assert "like those of 3 other containers (4 in all)" in status.message
    assert world.left_behind() == {}


@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
async def test_within_a_minor_hashes_may_be_asked_to_stay(make: Make, action: TaskAction) -> None:
    world = make("v1.30.13", "v1.30.14")
    world.kube.wish(hash_mode=HashMode.ASSERT_UNCHANGED, action=action)

    status = await world.serve()

    assert status.phase is (TaskPhase.SUCCEEDED if action is TaskAction.UPGRADE else TaskPhase.PRECHECKED)
    assert world.restarted == []


async def test_killed_at_any_moment_the_next_agent_looks_anew(make: Make) -> None:
    whole = make(OLD, NEW)
    before = whole.everything()
    expected = previewed(await precheck(whole))
    moments, whole.moments = whole.moments, []

    for number, moment in enumerate(moments):

        def kill(_moment: str, at: int = number) -> None:
            if len(whole.moments) - 1 == at:
                raise Killed

        whole.hook, whole.moments = kill, []
        with pytest.raises(Killed):
            await whole.serve()
        whole.hook = lambda _moment: None
        assert previewed(await whole.serve()) == expected, f"killed at {number}, {moment}"
    assert whole.everything() == before


def stranded(world: World) -> Callable[[str], None]:
    def strand(_moment: str) -> None:
        if world.stops:
            raise Killed

    return strand


def never_begun(_world: World) -> Callable[[str], None]:
    def strand(moment: str) -> None:
        if moment == "write_plan done":
            raise Killed

    return strand


@pytest.mark.parametrize(
    ("leave", "phase"), [(stranded, TaskPhase.REFUSED), (never_begun, TaskPhase.PRECHECKED)], ids=["open", "not begun"]
)
async def test_a_run_that_is_not_over_is_said_so_and_one_that_never_began_left_alone(
    world: World, leave: Callable[[World], Callable[[str], None]], phase: TaskPhase
) -> None:
    world.hook = leave(world)
    with pytest.raises(Killed):
        await world.serve()
    world.hook = lambda _moment: None
    unfinished = world.runs.unfinished()
    world.settings = replace(world.settings, run_id=RunId("0123abcd-2"))
    world.kube.wish(run_id=world.settings.run_id)

    status = await precheck(world)

    assert status.phase is phase
    assert world.runs.unfinished() == unfinished == f"{RUN}.1"
    if phase is TaskPhase.REFUSED:
        assert status.reason == Reason.ROLLBACK_FAILED
        assert f"run {RUN}.1 has begun and has not ended" in status.message


async def test_a_damaged_journal_refuses_and_is_not_the_precheck_s_doing(world: World) -> None:
    world.hook = stranded(world)
    with pytest.raises(Killed):
        await world.serve()
    world.hook = lambda _moment: None
    journal = world.root / f"var/lib/nodeupgrade/runs/{RUN}.1/journal"
    journal.write_bytes(b"x" + journal.read_bytes())
    world.settings = replace(world.settings, run_id=RunId("0123abcd-2"))
    world.kube.wish(run_id=world.settings.run_id)

    status = await precheck(world)

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.ROLLBACK_FAILED)


async def test_what_an_image_brought_is_looked_at_where_it_is(world: World) -> None:
    world.settings = replace(world.settings, artifact_pod=PodUid("u"))
    taken = volume_on_node("/var/lib/kubelet", PodUid("u")) / KUBELET_FROM_IMAGE
    world.node.disk[str(taken)] = program(NEW)
    world.kube.wish(
        artifact=TaskArtifact(kind=ArtifactKind.IMAGE, ref="registry.example/kubelet@sha256:00", path="/kubelet")
    )
    world.kube.wish(action=TaskAction.PRECHECK)
    disk, effects = dict(world.node.disk), list(world.node.calls.effects)

    previewed(await world.serve())

    assert (world.node.disk, world.node.calls.effects) == (disk, effects)


async def test_an_api_server_that_says_no_ends_it(world: World) -> None:
    def forbidden(moment: str) -> None:
        if moment == "list_pods_on_node":
            raise RejectedError("pods is forbidden")

    world.hook = forbidden

    status = await precheck(world)

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.STEP_FAILED)
    assert "pods is forbidden" in status.message


@pytest.mark.parametrize("changes", [{"run_id": RunId("another")}, {"action": TaskAction.RELEASE}])
async def test_what_nobody_wants_to_know_any_more_is_not_told(world: World, changes: dict[str, Any]) -> None:
    def lose_interest(moment: str) -> None:
        if moment == "list_pods_on_node":
            world.kube.wish(**changes)

    world.hook = lose_interest
    world.kube.wish(action=TaskAction.PRECHECK)

    assert (await world.serve()).phase is TaskPhase.PRECHECKING


async def test_a_precheck_that_was_called_off_is_not_begun(world: World) -> None:
    world.kube.wish(action=TaskAction.ABORT)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.FAILED, Reason.ABORTED)


async def test_a_place_where_the_executor_could_not_run_is_told_of(make: Make) -> None:
    world = make(OLD, NEW)
    world.node.disk["/proc/1/mountinfo"] = (
        b"25 1 253:0 / / rw - ext4 /dev/vda1 rw\n30 25 253:5 / /var rw,noexec - ext4 d rw\n"
    )

    status = await precheck(world)

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.EXECUTOR_UNAVAILABLE)
    assert "mounted noexec" in status.message
    assert status.preview is not None


@pytest.mark.parametrize("action", [TaskAction.PRECHECK, TaskAction.UPGRADE])
async def test_it_asks_for_the_room_that_staging_asks_for(
    make: Make, monkeypatch: pytest.MonkeyPatch, action: TaskAction
) -> None:
    """A small /usr: both kubelets fit, but staging does not begin with so little space, whatever it would fetch."""
    world = make(OLD, NEW)
    usage, small = world.node.files.usage, 200 * 1024**2

    def with_small_usr(path: PurePosixPath) -> DiskUsage:
        return replace(usage(path), size=2 * small, free=small) if path.is_relative_to("/usr") else usage(path)

    monkeypatch.setattr(world.node.files, "usage", with_small_usr)
    world.kube.wish(action=action)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.INSUFFICIENT_SPACE), status.message
    assert "only 200 MiB are free where the kubelet binary is stored; 256 MiB are needed" in status.message
    assert untouched(world)
