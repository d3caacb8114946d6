"""What every ContainerRuntime promises."""

import json
from dataclasses import replace

import pytest

from nodeupgrade.api.runtimes import SupportedRuntime
from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import ContainerGone, MetadataConflict
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage
from tests.contract.node.worlds import RuntimeWorld

OLD = StoredHashes(container=HashValue("aaaa0000"))
NEW = StoredHashes(container=HashValue("b1"))
BOTH = StoredHashes(container=HashValue("aaaa0000"), without_resources=HashValue("cccc0000"))
LIMIT = 240.0


def image_of(world: RuntimeWorld, container_id: ContainerId) -> BeforeImage:
    return world.runtime.before_images([container_id])[container_id]


def seen(world: RuntimeWorld, container_id: ContainerId, *, full: bool = False) -> ContainerInstance:
    found = world.runtime.inventory(full=full).container(container_id)
    assert found is not None
    return found


def served_after_restart(world: RuntimeWorld, container_id: ContainerId) -> StoredHashes:
    world.restart()
    world.runtime.wait_until_answering(LIMIT)
    return seen(world, container_id).hashes


def test_a_running_container_is_listed_with_the_marks_of_its_instance(runtime_world: RuntimeWorld) -> None:
    container_id = runtime_world.start_container(BOTH)

    quick, full = seen(runtime_world, container_id), seen(runtime_world, container_id, full=True)

    assert quick.state is ContainerState.RUNNING
    assert quick.hashes == BOTH
    assert quick.process == full.process is not None
    assert (quick.attempt, quick.created_at, quick.exit_code) == (full.attempt, full.created_at, None)
    assert full.started_at is not None
    sandbox = runtime_world.runtime.inventory(full=True).sandbox(quick.sandbox_id)
    assert sandbox is not None
    assert runtime_world.runtime.inventory(addresses=True).sandbox(quick.sandbox_id) == sandbox
    assert (sandbox.pod, sandbox.ready, sandbox.host_network, sandbox.ip) == (quick.pod, True, True, "")
    assert quick.process not in {sandbox.process, sandbox.monitor}
    assert sandbox.process is None or sandbox.process != sandbox.monitor, "CRI-O's pods rarely have one"


def test_of_some_pods_as_much_is_told_as_of_all(runtime_world: RuntimeWorld) -> None:
    asked, other = runtime_world.start_container(BOTH), runtime_world.start_container(OLD)
    runtime = runtime_world.runtime
    quick, full, pod = runtime.inventory(), runtime.inventory(full=True), seen(runtime_world, asked).pod.uid

    some = runtime.inventory(of={pod})

    assert some.container(asked) == full.container(asked) != quick.container(asked)
    assert some.container(other) == quick.container(other)
    of_pod = {s.id: s for s in full.sandboxes if s.pod.uid == pod}
    assert {s.id: s for s in some.sandboxes} == {s.id: s for s in quick.sandboxes} | of_pod


def test_a_container_has_a_monitor(runtime_world: RuntimeWorld) -> None:
    """Told where everything is asked for; containerd's are those of the sandboxes."""
    container_id = runtime_world.start_container(OLD)

    seen = runtime_world.runtime.inventory(full=True)
    container = seen.container(container_id)

    assert container is not None
    sandbox = seen.sandbox(container.sandbox_id)
    assert sandbox is not None
    assert container.monitor is not None
    if runtime_world.runtime.kind.name == SupportedRuntime.CONTAINERD:
        assert container.monitor == sandbox.monitor


def test_a_container_that_leaves_the_runtime_alone_is_none_of_its_clients(runtime_world: RuntimeWorld) -> None:
    container_id = runtime_world.start_container(OLD)
    runtime = runtime_world.runtime

    found = runtime.clients(runtime.inventory(full=True), runtime.info().process)

    assert container_id not in {*found.mounted, *found.connected}


def test_what_started_or_ended_since_the_last_look_is_seen(runtime_world: RuntimeWorld) -> None:
    first = runtime_world.start_container(OLD)
    before = seen(runtime_world, first)

    second = runtime_world.start_container(OLD)

    assert None not in {before.process, seen(runtime_world, second).process}
    assert before.process != seen(runtime_world, second).process
    runtime_world.remove_container(first)
    assert runtime_world.runtime.inventory().container(first) is None


def test_a_rewritten_hash_is_served_after_a_restart_and_nothing_else_changed(runtime_world: RuntimeWorld) -> None:
    container_id = runtime_world.start_container(OLD)
    before = runtime_world.runtime.inventory(full=True)

    runtime_world.runtime.rewrite([(image_of(runtime_world, container_id), NEW)])

    if not runtime_world.runtime.kind.stops_for_rewriting:
        assert seen(runtime_world, container_id).hashes == OLD, "served from memory until the restart"
    assert image_of(runtime_world, container_id).hashes == NEW
    assert served_after_restart(runtime_world, container_id) == NEW
    after = runtime_world.runtime.inventory(full=True)
    assert [replace(c, hashes=OLD) for c in after.containers] == list(before.containers)
    assert after.sandboxes == before.sandboxes


def test_rewriting_and_restoring_may_be_repeated(runtime_world: RuntimeWorld) -> None:
    container_id = runtime_world.start_container(OLD)
    image = image_of(runtime_world, container_id)

    for _ in range(2):
        runtime_world.runtime.rewrite([(image, NEW)])
    assert image_of(runtime_world, container_id).hashes == NEW
    for _ in range(2):
        runtime_world.runtime.restore(image)
    assert image_of(runtime_world, container_id) == image


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        (BOTH, StoredHashes(container=HashValue("1"), without_resources=HashValue("2")), ("1", "2")),
        (BOTH, NEW, ("b1", "cccc0000")),
        (OLD, StoredHashes(container=HashValue("1"), without_resources=HashValue("2")), ("1", None)),
        (BOTH, StoredHashes(container=None, without_resources=HashValue("2")), ("aaaa0000", "2")),
    ],
    ids=["both", "one left as it is", "absent never added", "only the second"],
)
def test_each_of_the_two_hashes_is_changed_only_where_both_sides_have_one(
    runtime_world: RuntimeWorld, stored: StoredHashes, wanted: StoredHashes, expected: tuple[str, str | None]
) -> None:
    container_id = runtime_world.start_container(stored)
    image = image_of(runtime_world, container_id)

    runtime_world.runtime.rewrite([(image, wanted)])

    now = image_of(runtime_world, container_id).hashes
    assert (now.container, now.without_resources) == expected
    runtime_world.runtime.restore(image)
    assert image_of(runtime_world, container_id) == image


@pytest.mark.parametrize("rewritten_before", [False, True])
def test_what_somebody_else_wrote_is_left_alone(runtime_world: RuntimeWorld, rewritten_before: bool) -> None:
    container_id = runtime_world.start_container(OLD)
    image = image_of(runtime_world, container_id)
    if rewritten_before:
        runtime_world.runtime.rewrite([(image, NEW)])
    runtime_world.change_more_than_the_hash(container_id)
    theirs = image_of(runtime_world, container_id)

    with pytest.raises(MetadataConflict):
        runtime_world.runtime.rewrite([(image, NEW)])
    with pytest.raises(MetadataConflict):
        runtime_world.runtime.restore(image)

    assert image_of(runtime_world, container_id) == theirs


def test_another_hash_than_the_one_read_is_a_conflict_but_can_be_restored(runtime_world: RuntimeWorld) -> None:
    container_id = runtime_world.start_container(OLD)
    image = image_of(runtime_world, container_id)
    runtime_world.runtime.rewrite([(image, StoredHashes(container=HashValue("dddd")))])

    with pytest.raises(MetadataConflict):
        runtime_world.runtime.rewrite([(image, NEW)])
    runtime_world.runtime.restore(image)

    assert image_of(runtime_world, container_id) == image


def test_a_container_that_is_full_of_what_looks_like_its_hashes_comes_back_byte_for_byte(
    runtime_world: RuntimeWorld,
) -> None:
    """Whoever creates a pod knows them beforehand, and writes where they like."""
    texts = tuple(
        quoted
        for value in (OLD.container, NEW.container)
        for entry in [f'"io.kubernetes.container.hash":"{value}"']
        for quoted in (entry, f"{{{entry}}}", json.dumps(entry), json.dumps(json.dumps(entry)))
    )
    container_id = runtime_world.start_container(OLD, texts=texts)
    image, before = image_of(runtime_world, container_id), runtime_world.runtime.inventory(full=True)

    runtime_world.runtime.rewrite([(image, NEW)])

    assert served_after_restart(runtime_world, container_id) == NEW
    upgraded = image_of(runtime_world, container_id)
    runtime_world.runtime.rewrite([(upgraded, OLD)])
    runtime_world.runtime.restore(upgraded)
    assert image_of(runtime_world, container_id) == upgraded, "as if the next upgrade had turned back"
    runtime_world.runtime.restore(image)
    assert served_after_restart(runtime_world, container_id) == OLD
    assert runtime_world.runtime.inventory(full=True) == before


def test_what_is_no_hash_is_not_stored(runtime_world: RuntimeWorld) -> None:
    container_id = runtime_world.start_container(OLD)
    image = image_of(runtime_world, container_id)

    with pytest.raises(MetadataConflict):
        runtime_world.runtime.rewrite([(image, StoredHashes(container=HashValue('b1","x":"')))])

    assert image_of(runtime_world, container_id) == image


def test_what_runs_and_is_taken_for_ended_is_shown_again(runtime_world: RuntimeWorld) -> None:
    first, second = runtime_world.start_container(OLD), runtime_world.start_container(OLD)
    runtime, before = runtime_world.runtime, runtime_world.runtime.inventory(full=True)
    images = runtime.before_images([first, second])

    runtime_world.restart_in_error()
    runtime.wait_until_answering(LIMIT)
    taken = runtime.reinstate(images.values())
    runtime.wait_until_answering(LIMIT)

    assert taken == (frozenset(images) if runtime.kind.remembers_ends else frozenset())
    assert runtime.reinstate(images.values()) == frozenset()
    assert runtime.inventory(full=True) == before


def test_a_container_that_is_gone_is_said_to_be_gone(runtime_world: RuntimeWorld) -> None:
    container_id = runtime_world.start_container(OLD)
    other = runtime_world.start_container(OLD)
    image = image_of(runtime_world, container_id)
    runtime_world.remove_container(container_id)

    assert set(runtime_world.runtime.before_images([container_id, other])) == {other}
    with pytest.raises(ContainerGone):
        runtime_world.runtime.rewrite([(image, NEW)])
    with pytest.raises(ContainerGone):
        runtime_world.runtime.restore(image)
    assert runtime_world.runtime.inventory(full=True).container(container_id) is None


def test_the_runtime_says_who_it_is(runtime_world: RuntimeWorld) -> None:
    info = runtime_world.runtime.info()

    assert info.name == runtime_world.runtime.kind.name
    assert info.version[0].isdigit()
    assert ("v1" in info.cri_versions) is (info.name != SupportedRuntime.DOCKER), "dockershim serves it, which is away"


def test_a_runtime_that_nobody_touched_would_come_back_as_it_runs(runtime_world: RuntimeWorld) -> None:
    runtime, unit = runtime_world.runtime, runtime_world.unit
    info = runtime.info()

    start = runtime.next_start(unit, info.process)

    assert unit.name == runtime.kind.unit
    assert (start.as_it_runs, start.starter, start.complaint) == (True, "", "")
    assert start.program == unit.program
    assert start.places == info.places


def test_whatever_makes_a_restart_gentler_can_be_taken_away_by_its_name(runtime_world: RuntimeWorld) -> None:
    """And says what it does, or why nothing is done."""
    tuning = runtime_world.runtime.restart_tuning(runtime_world.unit)

    assert {file.path for file in tuning.files} <= {str(path) for path in runtime_world.runtime.kind.tuning}
    assert tuning.why
