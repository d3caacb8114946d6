"""What only CRI-O does, on recorded storage: what it remembers, what it deletes, and what it says about itself."""

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.lab.process import wait_until
from nodeupgrade.api.values import ContainerId, SandboxId
from nodeupgrade.errors import ContainerGone, Transient
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.client import CriClient
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.crio.next_start import UNIT
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, StoredHashes
from nodeupgrade.node.runtimes.runtime import BeforeImage
from tests.contract.node.crio_storage import CREATED_BY_HANDLER, go_json, nanoseconds
from tests.contract.node.crio_world import RUNS, CrioWorld

OLD, NEW = StoredHashes(container=HashValue("aaaa0000")), StoredHashes(container=HashValue("b1"))
LIMIT = 60.0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CrioWorld]:
    made = CrioWorld(tmp_path)
    yield made
    made.close()


def image_of(world: CrioWorld, container_id: ContainerId) -> BeforeImage:
    return world.runtime.before_images([container_id])[container_id]


def shown(world: CrioWorld, container_id: ContainerId) -> ContainerInstance | None:
    world.runtime.wait_until_answering(LIMIT)
    return world.runtime.inventory(full=True).container(container_id)


def restarted(world: CrioWorld, container_id: ContainerId) -> ContainerInstance | None:
    world.restart()
    return shown(world, container_id)


def sandbox_of(world: CrioWorld, container_id: ContainerId) -> SandboxId:
    container = shown(world, container_id)
    assert container is not None
    return container.sandbox_id


def config(world: CrioWorld, container_id: ContainerId) -> Path:
    return world.storage.directory(container_id) / "config.json"


def test_only_the_bytes_of_the_hash_are_rewritten_in_both_places(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    path = config(world, container_id)
    path.chmod(0o640)
    before = path.read_bytes()

    world.runtime.rewrite([(image_of(world, container_id), NEW)])

    after = path.read_bytes()
    assert after == before.replace(b"aaaa0000", b"b1")
    assert len(before) - len(after) == 2 * (len("aaaa0000") - len("b1"))
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir() if entry.name not in {path.name, "state.json"}] == []


def test_what_a_crashed_write_left_is_in_nobodys_way(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    image = image_of(world, container_id)
    left = config(world, container_id).with_name(".config.json.nodeupgrade-new")
    left.write_text("half a")

    world.runtime.restore(image)
    assert not left.exists()
    left.write_text("half a")
    world.runtime.rewrite([(image, NEW)])

    assert not left.exists()
    assert image_of(world, container_id).hashes == NEW


def test_what_a_dead_attempt_left_beside_a_state_is_taken_away(world: CrioWorld) -> None:
    """Even where nothing is to be reinstated, and nothing is to be rewritten any more."""
    container_id = world.start_container(OLD)
    image = image_of(world, container_id)
    directory, sandbox = config(world, container_id).parent, world.storage.directory(sandbox_of(world, container_id))
    left = [place / ".state.json.nodeupgrade-new" for place in (directory, sandbox)]
    for each in (*left, beside := directory / ".config.json.nodeupgrade-new"):
        each.write_text("half a")

    assert world.runtime.reinstate([image]) == frozenset()
    assert [each for each in left if each.exists()] == []
    world.runtime.rewrite([(image, OLD)])
    assert not beside.exists()


@pytest.mark.parametrize("harm", ["truncated", "missing", "inner"])
def test_a_container_that_cannot_be_loaded_is_deleted_which_is_the_control(world: CrioWorld, harm: str) -> None:
    """Its process lives on; that is why no other byte may change."""
    container_id = world.start_container(OLD)
    process, path = world.process(container_id), config(world, container_id)
    data = path.read_bytes()
    match harm:
        case "truncated":
            path.write_bytes(data[:-5])
        case "missing":
            path.unlink()
        case _:
            path.write_bytes(data.replace(rb"{\"io", rb"{\"io\""))

    assert restarted(world, container_id) is None

    assert world.runtime.alive([process]) == {process}
    image = world.runtime.before_images([container_id])
    assert image == {}


def test_a_container_whose_state_is_missing_is_refused(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    (world.storage.directory(container_id) / "state.json").unlink()

    with pytest.raises(UnexpectedMetadata, match=r"no state\.json .* would delete it"):
        image_of(world, container_id)


@pytest.mark.parametrize("odd", ["../../etc", "", "a/b"])
def test_an_id_that_is_no_name_leads_nowhere(world: CrioWorld, odd: str) -> None:
    with pytest.raises(UnexpectedMetadata, match="not an id"):
        world.runtime.before_images([ContainerId(odd)])


# ── what it remembers ────────────────────────────────────────────────────────


def test_the_time_of_creation_is_the_one_that_no_restart_changes(world: CrioWorld) -> None:
    """In its list CRI-O has its own clock's until its first restart, and the annotation's from then on."""
    container_id = world.start_container(OLD)
    before = world.runtime.inventory().container(container_id)
    assert before is not None
    assert before.created_at == nanoseconds(CREATED_BY_HANDLER)

    world.restart()

    world.runtime.wait_until_answering(LIMIT)
    assert world.runtime.inventory().container(container_id) == before
    world.end(container_id)
    world.restart()
    ended = shown(world, container_id)
    assert ended is not None
    assert (ended.state, ended.created_at) == (ContainerState.EXITED, before.created_at)


def test_a_sandbox_that_has_ended_is_not_asked_for_its_address(
    world: CrioWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, ended = (sandbox_of(world, world.start_container(OLD)) for _ in range(2))
    world.storage.sandboxes[ended]["ready"] = False
    world.runtime.inventory()
    statuses, asked = CriClient.sandbox_statuses, set[str]()

    def sandbox_statuses(client: CriClient, ids: Iterable[str], *, verbose: bool = False) -> object:
        asked.update(wanted := tuple(ids))
        return statuses(client, wanted, verbose=verbose)

    monkeypatch.setattr(CriClient, "sandbox_statuses", sandbox_statuses)

    found = world.runtime.inventory(addresses=True)

    assert asked == {runs}
    assert {s.id: s.ip for s in found.sandboxes} == {runs: "", ended: None}


def test_without_help_a_wrong_verdict_lasts(world: CrioWorld) -> None:
    """The control: the cause is gone, and still it is taken for ended."""
    container_id = world.start_container(OLD)
    world.storage.handler_fails = True
    wrong = restarted(world, container_id)
    world.storage.handler_fails = False

    assert wrong is not None
    assert (wrong.state, wrong.exit_code) == (ContainerState.EXITED, 255)
    again = restarted(world, container_id)
    assert again is not None
    assert again.state is ContainerState.EXITED
    assert world.runtime.alive([world.process(container_id)])


def test_what_it_wrongly_remembers_is_put_back_while_it_is_stopped(world: CrioWorld) -> None:
    first, second = world.start_container(OLD), world.start_container(OLD)
    before = world.runtime.inventory(full=True)
    images = world.runtime.before_images([first, second])
    world.storage.handler_fails = True
    restarted(world, first)
    world.storage.handler_fails = False
    world.services.done.clear()

    assert world.runtime.reinstate(images.values()) == {first, second}

    assert world.services.done == [f"stop {UNIT}", f"start {UNIT}"]
    world.runtime.wait_until_answering(LIMIT)
    assert world.runtime.inventory(full=True) == before
    assert world.runtime.reinstate(images.values()) == frozenset(), "once is enough"
    assert restarted(world, first) == before.container(first)


def test_what_is_remembered_rightly_is_left_alone(world: CrioWorld) -> None:
    """It ended before the image was made, so that there is nothing to put back."""
    container_id = world.start_container(OLD)
    world.storage.handler_fails = True
    restarted(world, container_id)

    assert world.runtime.reinstate([image_of(world, container_id)]) == frozenset()
    assert world.services.done == []


def test_a_container_that_is_gone_is_not_reinstated(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    image = image_of(world, container_id)
    world.remove_container(container_id)

    assert world.runtime.reinstate([image]) == frozenset()
    with pytest.raises(ContainerGone):
        world.runtime.restore(image)


def test_a_container_that_was_deleted_keeps_no_other_from_being_reinstated(world: CrioWorld) -> None:
    """Nobody could read its file; its pod's own process lives, and is taken for ended like the others."""
    deleted, other = world.start_container(OLD), world.start_container(OLD)
    images = world.runtime.before_images([deleted, other])
    config(world, deleted).write_text("{")
    world.storage.handler_fails = True
    world.restart()
    world.storage.handler_fails = False

    assert world.runtime.reinstate(images.values()) == {other}

    found = shown(world, other)
    assert found is not None
    assert found.state is ContainerState.RUNNING


def test_it_is_started_if_it_was_left_stopped(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    world.stop()
    with pytest.raises(Transient):
        world.runtime.inventory()

    assert shown(world, container_id) is not None
    assert world.services.done == [f"start {UNIT}"]


def test_a_pod_that_shares_its_pids_is_put_back_with_its_container(world: CrioWorld) -> None:
    """Its own process lives, but CRI-O has marked the pod as stopped, besides the verdict about the process."""
    container_id = world.start_container(OLD)
    before, image = world.runtime.inventory(full=True), image_of(world, container_id)
    world.storage.handler_fails = True
    restarted(world, container_id)
    world.storage.handler_fails = False
    sandbox = before.sandboxes[0]
    marker = world.storage.directory(sandbox.id) / "stopped"
    assert marker.exists()
    assert [s.ready for s in world.runtime.inventory().sandboxes] == [False]

    assert world.runtime.reinstate([image]) == {container_id}

    world.runtime.wait_until_answering(LIMIT)
    assert not marker.exists()
    assert world.runtime.inventory(full=True) == before
    assert restarted(world, container_id) == before.container(container_id)
    assert world.runtime.inventory(full=True).sandboxes == (sandbox,)


@pytest.mark.parametrize("left", ["verdict", "marker"])
def test_a_pod_that_was_put_back_by_half_is_put_back(world: CrioWorld, left: str) -> None:
    """Whoever puts it back may be killed between the two."""
    container_id = world.start_container(OLD)
    image, sandbox = image_of(world, container_id), sandbox_of(world, container_id)
    before = world.runtime.inventory(full=True)
    directory = world.storage.directory(sandbox)
    if left == "marker":
        (directory / "stopped").touch()
    else:
        state = json.loads((directory / "state.json").read_bytes())
        (directory / "state.json").write_text(go_json(state | {"status": "stopped", "exitCode": 255}))

    assert world.runtime.reinstate([image]) == {container_id}

    world.runtime.wait_until_answering(LIMIT)
    assert world.runtime.inventory(full=True) == before


def test_a_pod_whose_own_process_has_ended_stays_so(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    image, sandbox = image_of(world, container_id), sandbox_of(world, container_id)
    world.end(sandbox)
    restarted(world, container_id)

    assert world.runtime.reinstate([image]) == frozenset()
    assert (world.storage.directory(sandbox) / "stopped").exists()


def test_a_pod_that_had_been_stopped_before_stays_so(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    marker = world.storage.directory(sandbox_of(world, container_id)) / "stopped"
    marker.touch()

    assert world.runtime.reinstate([image_of(world, container_id)]) == frozenset()
    assert marker.exists()


def test_an_image_of_a_version_that_knew_no_pods_is_read(world: CrioWorld) -> None:
    """A run may be unfinished when this program is upgraded."""
    container_id = world.start_container(OLD)
    image = image_of(world, container_id)
    document = {key: value for key, value in json.loads(image.data).items() if key != "sandbox"}

    assert world.runtime.reinstate([replace(image, data=json.dumps(document).encode())]) == frozenset()


# ── processes ────────────────────────────────────────────────────────────────


def test_a_container_that_lost_its_conmon_looks_well_and_is_found_out(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    before = shown(world, container_id)
    world.kill_conmon(container_id)
    after = shown(world, container_id)

    assert before is not None
    assert after is not None
    assert after == replace(before, monitor=None)
    assert before.monitor is not None


def test_a_pod_without_a_process_of_its_own_has_none(world: CrioWorld) -> None:
    """As most have; CRI-O then keeps only its namespaces."""
    world.start_container(OLD, shared=False)

    [sandbox] = world.runtime.inventory(full=True).sandboxes

    assert (sandbox.ready, sandbox.process, sandbox.monitor, sandbox.host_network) == (True, None, None, True)


def test_the_log_tells_what_it_was_asked_to_stop(world: CrioWorld) -> None:
    lines = [
        'time="2026-11-20 10:00:00.1Z" level=info msg="Starting CRI-O" ',
        'time="2026-11-20 10:00:01.1Z" level=info msg="Stopping container: aa11 (timeout: 30s)" id=7 name=/runtime.v1',
        'time="2026-11-20 10:00:01.2Z" level=info msg="Stopped container aa12: default/a/b" id=7 name=/runtime.v1',
        'time="2026-11-20 10:00:02.1Z" level=info msg="Stopping pod sandbox: bb22" id=8 name=/runtime.v1',
        'time="2026-11-20 10:00:03.1Z" level=info msg="Removing pod sandbox: bb23" id=9 name=/runtime.v1',
    ]
    assert world.runtime.asked_to_stop(lines) == frozenset({"aa11", "bb22", "bb23"})
    assert world.runtime.asked_to_stop([]) is None
    assert world.runtime.asked_to_stop([*lines, "Suppressed 7 messages from crio.service"]) is None
    assert world.runtime.asked_to_stop(['time="x" level=warning msg="Stopping"']) is None


def test_the_log_of_an_older_one_tells_it_in_other_words(world: CrioWorld) -> None:
    """CRI-O 1.17.5."""
    lines = [
        'time="2026-11-20 10:00:01.1Z" level=info msg="Attempting to stop container: aa11" id=7',
        'time="2026-11-20 10:00:02.1Z" level=info msg="Attempting to stop pod sandbox: bb22" id=8',
        'time="2026-11-20 10:00:03.1Z" level=info msg="Attempting to remove pod sandbox: bb23" id=9',
    ]
    assert world.runtime.asked_to_stop(lines) == frozenset({"aa11", "bb22", "bb23"})


@pytest.mark.parametrize("told", ["Stopped container default/a/b", "stopped container: x", "stopped pod sandbox: y"])
def test_the_log_of_one_that_tells_only_what_it_has_stopped_is_inconclusive(world: CrioWorld, told: str) -> None:
    """CRI-O up to 1.17.4, and 1.18.0."""
    assert world.runtime.asked_to_stop([f'time="2026-11-20 10:00:01.1Z" level=info msg="{told}" id=7']) is None


@pytest.mark.parametrize("words", ["Removing", "Attempting to remove"])
def test_removing_a_container_is_no_request_to_stop_it(world: CrioWorld, words: str) -> None:
    """A kubelet removes what has ended, which CRI-O lists until its storage is deleted."""
    line = f'time="2026-11-20 10:00:01.1Z" level=info msg="{words} container: aa11" id=7 name=/runtime.v1'
    assert world.runtime.asked_to_stop([line]) == frozenset()


def test_it_does_not_start_where_somebody_listens_already(world: CrioWorld) -> None:
    """A real one ends with this message; a shield that stays at the path would keep it from coming back."""
    with pytest.raises(OSError, match="already existing connection"):
        type(world.server)(world.socket, world.storage, lambda: RUNS)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("version", "proven"),
    [
        ("1.33.13", True),
        ("1.33.0", True),
        ("1.36.3", True),
        ("1.3.3", False),
        ("1.30.14", False),
        ("1.37.0-dev", False),
    ],
)
def test_only_versions_of_which_runs_are_known_need_no_acceptance(world: CrioWorld, version: str, proven: bool) -> None:
    assert (world.runtime.kind.unproven(version) == "") is proven
    assert world.runtime.kind.unproven(world.runtime.info().version) == ""


def test_only_the_annotation_inside_counts(world: CrioWorld) -> None:
    container_id = world.start_container(OLD)
    path = config(world, container_id)
    document = json.loads(path.read_bytes())
    document["annotations"]["io.kubernetes.container.hash"] = "b1"
    path.write_text(json.dumps(document))
    seen = restarted(world, container_id)

    assert seen is not None
    assert seen.hashes == OLD, "the annotation outside is not the one that counts"
    with pytest.raises(UnexpectedMetadata, match="in one place"):
        image_of(world, container_id)


def test_processes_end_with_the_world(tmp_path: Path) -> None:
    made = CrioWorld(tmp_path)
    container_id = made.start_container(OLD)
    process = made.process(container_id)
    made.close()

    wait_until("the container's process to end", lambda: not made.runtime.alive([process]), timeout=30)
    wait_until(
        "the world's processes to end",
        lambda: not subprocess.run(["pgrep", "-f", str(tmp_path)], check=False, capture_output=True).stdout,
        timeout=30,
    )
