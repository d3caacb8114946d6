"""What only a real Docker can show: its restart, its notes in its files, its settings in effect, its start limit."""

import json
from collections.abc import Callable

import pytest

from e2e.lab.process import wait_until
from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import MetadataConflict, StepFailed, Transient
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.description import RuntimeAtWork, RuntimePlaces
from nodeupgrade.node.runtimes.docker import metadata
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.contract.node.real_docker import DAEMON_JSON, DOCKER, LIMIT, DockerWorld

pytestmark = pytest.mark.e2e

OLD = StoredHashes(container=HashValue("aaaa0000"))
NEW = StoredHashes(container=HashValue("b1"))


def served(world: DockerWorld, ids: list[ContainerId]) -> set[HashValue | None]:
    world.runtime.wait_until_answering(LIMIT)
    inventory = world.runtime.inventory()
    return {c.hashes.container for c in inventory.containers if c.id in ids}


def test_who_answers_and_from_where(docker: DockerWorld) -> None:
    info = docker.runtime.info()

    assert info.process is not None
    assert info.process.pid == docker.unit.main_pid, "systemd listens, too"
    assert info.places == RuntimePlaces(root="/var/lib/docker", state="/run/docker", address="/run/docker.sock")
    assert (info.version, info.cgroup_driver, info.objections) == (info.binary_version, "cgroupfs", ())


def test_every_instance_survives_there_and_back_more_often_than_systemd_allows_in_a_minute(docker: DockerWorld) -> None:
    ids = [docker.start_container(OLD) for _ in range(2)]
    before = docker.runtime.inventory(full=True)
    images = docker.runtime.before_images(ids)

    for _ in range(3):
        docker.runtime.rewrite([(image, NEW) for image in images.values()])
        assert not docker.unit.running
        assert docker.runtime.alive([c.process for c in before.containers if c.process]) == {
            c.process for c in before.containers if c.process
        }
        docker.restart()
        assert served(docker, ids) == {"b1"}
        for image in images.values():
            docker.runtime.restore(image)
        assert served(docker, ids) == {"aaaa0000"}

    after = docker.runtime.inventory(full=True)
    assert [(c.id, c.process, c.monitor, c.started_at) for c in after.containers] == [
        (c.id, c.process, c.monitor, c.started_at) for c in before.containers
    ]
    assert after.sandboxes == before.sandboxes


def test_a_rewrite_changes_one_label_and_not_a_byte_besides(docker: DockerWorld) -> None:
    container_id = docker.start_container(OLD)
    image = docker.runtime.before_images([container_id])[container_id]
    docker.node.exec("systemctl", "stop", "docker.socket", DOCKER)
    before, mode = docker.content(container_id), docker.path(container_id).stat().st_mode

    docker.runtime.rewrite([(image, NEW)])

    assert docker.content(container_id) == before.replace(
        f'{metadata.HASH_LABEL}":"aaaa0000"', f'{metadata.HASH_LABEL}":"b1"'
    )
    assert docker.path(container_id).stat().st_mode == mode


def test_the_control_what_is_written_while_dockerd_runs_is_lost(docker: DockerWorld) -> None:
    container_id = docker.start_container(OLD)
    content = docker.content(container_id)
    docker.path(container_id).write_text(content.replace('hash":"aaaa0000"', 'hash":"b1"'))

    docker.docker(
        "rename", container_id, f"k8s_renamed_pod0_contract_uid0_{content.count('a')}"
    )  # an event like others

    assert "aaaa0000" in docker.content(container_id)


def test_an_exit_that_dockerd_notes_meanwhile_is_kept_by_a_restoration(docker: DockerWorld) -> None:
    container_id = docker.start_container(OLD)
    image = docker.runtime.before_images([container_id])[container_id]
    docker.runtime.rewrite([(image, NEW)])
    docker.runtime.wait_until_answering(LIMIT)
    docker.docker("kill", container_id)
    wait_until("the end", lambda: '"Running":false' in docker.content(container_id), timeout=LIMIT)

    docker.runtime.restore(image)

    state = json.loads(docker.content(container_id))["State"]
    assert (state["Running"], state["Pid"]) == (False, 0)
    assert docker.runtime.before_images([container_id])[container_id] == image


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-5],
        lambda _text: "",
        lambda text: text.replace(
            '"Labels":{', '"Labels":{"io":"x","annotation.io.kubernetes.container.hash":"aaaa0000",'
        ),
    ],
    ids=["truncated", "empty", "the hash twice"],
)
def test_odd_files_are_refused_and_left_alone(docker: DockerWorld, damage: Callable[[str], str]) -> None:
    container_id = docker.start_container(OLD)
    image, good = docker.runtime.before_images([container_id])[container_id], docker.content(container_id)
    docker.write(container_id, damage(good))
    bad = docker.content(container_id)

    with pytest.raises(UnexpectedMetadata, match=container_id):
        docker.runtime.before_images([container_id])
    with pytest.raises((MetadataConflict, UnexpectedMetadata)):
        docker.runtime.rewrite([(image, NEW)])
    with pytest.raises((MetadataConflict, UnexpectedMetadata)):
        docker.runtime.restore(image)

    assert docker.content(container_id) == bad
    docker.write(container_id, good)


def test_a_dockerd_whose_live_restore_was_switched_off_meanwhile_is_not_stopped(docker: DockerWorld) -> None:
    container_id = docker.start_container(OLD)
    image = docker.runtime.before_images([container_id])[container_id]
    docker.configure(**{"live-restore": False})
    docker.node.exec("systemctl", "reload", DOCKER)
    try:
        wait_until("the reload", lambda: docker.runtime.info().objections, timeout=LIMIT)
        with pytest.raises(StepFailed, match="live-restore is not in effect"):
            docker.runtime.rewrite([(image, NEW)])
        assert docker.unit.running

        info = docker.runtime.info()
        seen = RuntimeAtWork(
            info=info, unit=docker.unit, inventory=docker.runtime.inventory(full=True), listing_seconds=0
        )
        [hazard] = docker.runtime.restart_hazards(seen).runtime
        assert "would end every container" in hazard.detail
        assert "live-restore is not switched on" in docker.runtime.next_start(docker.unit, info.process).complaint
    finally:
        docker.configure(**{"live-restore": True})
        docker.node.exec("systemctl", "reload", DOCKER)
        wait_until("the reload", lambda: not docker.runtime.info().objections, timeout=LIMIT)


def test_a_configuration_that_dockerd_would_not_start_with_is_told(docker: DockerWorld) -> None:
    file = docker.node.disk / DAEMON_JSON.lstrip("/")
    text = file.read_text()
    info = docker.runtime.info()
    for broken, why in (
        ("{", "not JSON"),
        (text.replace("{", '{"hosts": ["fd://"],', 1), "by a flag and in daemon.json"),
    ):
        file.write_text(broken)
        try:
            start = docker.runtime.next_start(docker.unit, info.process)
        finally:
            file.write_text(text)
        assert start.places is None
        assert why in start.complaint


def test_a_stopped_dockerd_does_not_answer_and_is_started_by_whoever_waits(docker: DockerWorld) -> None:
    container_id = docker.start_container(OLD)
    docker.runtime.rewrite([(docker.runtime.before_images([container_id])[container_id], NEW)])

    with pytest.raises(Transient):
        docker.runtime.inventory()
    assert not docker.unit.running

    assert served(docker, [container_id]) == {"b1"}


def test_the_loss_of_a_shim_is_seen(docker: DockerWorld) -> None:
    container_id = docker.start_container(OLD)
    container = docker.runtime.inventory().container(container_id)
    assert container is not None
    assert container.monitor is not None
    docker.node.exec("kill", "-STOP", str(container.monitor.pid))  # or it would take the container along
    docker.node.exec("kill", "-KILL", str(container.monitor.pid))

    def seen() -> bool:
        after = docker.runtime.inventory().container(container_id)
        return after is None or after.monitor is None

    wait_until("the loss of the shim to be seen", seen, timeout=LIMIT)
