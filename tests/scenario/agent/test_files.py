"""Files that go along with the kubelet: exchanged with it, put back exactly, and their content nowhere else."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import to_json
from nodeupgrade.api.node_files import LARGEST_FILE, KeyReference, NodeFile
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import TaskPhase
from tests.doubles.node import Behaviour
from tests.scenario.agent.harness import NEW, OLD, World, make_world, untouched, upgraded

CONFIG, AUTHORITY = "/var/lib/kubelet/config.yaml", "/etc/kubernetes/ca.crt"
BEFORE, AFTER, SECRET = b"maxPods: 110\n", b"maxPods: 120\nserverTLSBootstrap: true\n", b"-----BEGIN SECRET-----\n"


def sha(content: bytes) -> str:
    return sha256(content).hexdigest()


def wanted(path: str, content: bytes, **fields: Any) -> NodeFile:
    source = fields or {"config_map_key_ref": KeyReference(name="kubelet", key="config")}
    return NodeFile(path=path, sha256=sha(content), mode="0644", **source)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A node whose kubelet has a configuration file; the pod brings another, and a file that is not there yet."""
    world = make_world(tmp_path, monkeypatch, arguments=(f"--config={CONFIG}",))
    world.node.disk[CONFIG] = BEFORE
    world.disk = dict(world.node.disk)
    world.settings = replace(world.settings, files=tmp_path / "files")
    world.node.kubelet.reads = {
        OLD: {CONFIG: BEFORE, AUTHORITY: None},
        NEW: {CONFIG: AFTER, AUTHORITY: SECRET},
    }
    world.kube.wish(
        files=(
            wanted(CONFIG, AFTER),
            wanted(AUTHORITY, SECRET, secret_key_ref=KeyReference(name="authority", key="ca.crt")),
        )
    )
    bring(world, 0, AFTER)
    bring(world, 1, SECRET)
    return world


def bring(world: World, index: int, content: bytes) -> None:
    """Have the content of a file in the agent's pod."""
    path = world.settings.file(index)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def leftovers(world: World) -> list[str]:
    return [path for path in world.node.disk if ".nodeupgrade-" in path and not path.startswith("/usr/bin/")]


async def test_new_files_come_with_the_new_kubelet_and_nothing_else_tells_their_content(world: World) -> None:
    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert (world.node.disk[CONFIG], world.node.disk.pop(AUTHORITY)) == (AFTER, SECRET)
    assert upgraded(world)
    assert leftovers(world) == []
    assert [(file.path, file.before, file.after) for file in status.kubelet.files] == [
        (CONFIG, sha(BEFORE), sha(AFTER)),
        (AUTHORITY, None, sha(SECRET)),
    ]
    assert b"BEGIN SECRET" not in str([to_json(each) for each in world.kube.statuses]).encode()
    kept = [path.read_bytes() for path in (world.root / "var").rglob("*") if path.is_file()]
    assert kept
    assert not [data for data in kept if b"BEGIN SECRET" in data]


async def test_the_way_back_puts_the_old_files_back(world: World) -> None:
    world.node.kubelet.behaviour[NEW] = Behaviour.SICKENS

    status = await world.serve()

    assert status.phase is TaskPhase.ROLLED_BACK, status.message
    assert world.node.disk[CONFIG] == BEFORE
    assert AUTHORITY not in world.node.disk
    assert world.node.kubelet.violations == []
    assert world.restarted == []
    assert leftovers(world) == []
    assert status.kubelet.files == ()


async def test_a_plan_lists_the_files_and_touches_none(world: World) -> None:
    world.kube.wish(action=TaskAction.PRECHECK)
    before = world.everything()

    status = await world.serve()

    assert status.phase is TaskPhase.PRECHECKED, status.message
    assert status.preview is not None
    assert [(file.path, file.before, file.after) for file in status.preview.files] == [
        (CONFIG, sha(BEFORE), sha(AFTER)),
        (AUTHORITY, None, sha(SECRET)),
    ]
    assert world.everything() == before


async def test_a_file_that_is_right_already_is_left_alone(world: World) -> None:
    world.node.disk[CONFIG] = AFTER
    world.node.kubelet.reads = {}

    status = await world.serve()

    assert [file.path for file in status.kubelet.files] == [AUTHORITY]


REFUSED = {
    "missing": (Reason.FILE_UNAVAILABLE, "key config of ConfigMap kubelet", None),
    "changed": (Reason.DIGEST_MISMATCH, "has another SHA-256", b"another"),
    "too large": (Reason.FILE_UNAVAILABLE, "larger than", bytes(LARGEST_FILE + 1)),
}


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
@pytest.mark.parametrize(("reason", "said", "content"), REFUSED.values(), ids=REFUSED.keys())
async def test_content_that_is_not_as_promised_is_refused(
    world: World, action: TaskAction, reason: Reason, said: str, content: bytes | None
) -> None:
    world.kube.wish(action=action)
    if content is None:
        world.settings.file(0).unlink()
    else:
        bring(world, 0, content)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, reason)
    assert said in status.message
    assert untouched(world)


@pytest.mark.parametrize("index", [0, 1], ids=["a ConfigMap", "a Secret"])
async def test_of_a_secret_not_even_the_digest_is_told(world: World, index: int) -> None:
    bring(world, index, b"guess")

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.DIGEST_MISMATCH)
    assert sha(b"guess") not in status.message
    assert untouched(world)


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"runOnce: true\n", Reason.KUBELET_WOULD_NOT_START),
        (b"maxPods: 1\n", Reason.POD_WOULD_NOT_BE_ADMITTED),
        (b"cgroupRoot: /elsewhere\n", Reason.SETTING_NOT_CHANGEABLE),
    ],
)
async def test_the_new_kubelet_is_judged_by_the_new_file(
    world: World, action: TaskAction, content: bytes, reason: Reason
) -> None:
    world.kube.wish(action=action, files=(wanted(CONFIG, content),))
    bring(world, 0, content)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, reason), status.message
    assert untouched(world)


async def test_the_old_kubelet_must_accept_the_old_file_for_there_to_be_a_way_back(world: World) -> None:
    """Somebody has broken it since; the new one would mend it, but no rollback could end well."""
    world.node.disk[CONFIG] = b"runOnce: true\n"
    world.disk = dict(world.node.disk)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.KUBELET_WOULD_NOT_START)
    assert "no way back" in status.message
    assert untouched(world)


DROP_INS = "/etc/kubernetes/kubelet.conf.d"


@pytest.mark.parametrize("directory", [DROP_INS, f"{DROP_INS}/", "/etc//kubernetes/kubelet.conf.d"])
@pytest.mark.parametrize("there", [True, False], ids=["another", "a first"])
async def test_a_drop_in_of_the_kubelets_configuration_may_be_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool, directory: str
) -> None:
    """The copy of the old one lies beside it, where no kubelet reads it."""
    world = make_world(tmp_path, monkeypatch, arguments=(f"--config={CONFIG}", f"--config-dir={directory}"))
    world.node.disk.update({CONFIG: BEFORE, f"{DROP_INS}/00-site.conf": b"eventBurst: 60\n"})
    drop_in = f"{DROP_INS}/10-site.conf"
    if there:
        world.node.disk[drop_in] = b"maxPods: 110\n"
    world.disk = dict(world.node.disk)
    world.settings = replace(world.settings, files=tmp_path / "files")
    world.kube.wish(files=(wanted(drop_in, AFTER),))
    bring(world, 0, AFTER)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert world.node.disk[drop_in] == AFTER
    assert leftovers(world) == []


ELSEWHERE = "/etc/kubernetes/kubelet.yaml"
LINKED = {
    "a link": (f"--config={CONFIG}", {CONFIG: ELSEWHERE}, ELSEWHERE),
    "a relative link to a link": (
        f"--config={CONFIG}",
        {CONFIG: "../kubelet/instance-config.yaml", "/var/lib/kubelet/instance-config.yaml": ELSEWHERE},
        ELSEWHERE,
    ),
    "a directory": ("--config=/opt/kubelet/kubelet.yaml", {"/opt/kubelet": "/etc/kubernetes"}, ELSEWHERE),
    "the directory of drop-ins": (
        "--config-dir=/opt/kubelet.d", {"/opt/kubelet.d": DROP_INS}, f"{DROP_INS}/10-site.conf",
    ),
    "a drop-in": (f"--config-dir={DROP_INS}", {f"{DROP_INS}/10-site.conf": ELSEWHERE}, ELSEWHERE),
}  # fmt: skip


@pytest.fixture(params=[*LINKED.values()], ids=[*LINKED])
def linked(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[World, str]:
    """A node whose kubelet reads a file through a symbolic link, and the path of the file itself."""
    argument, links, path = request.param
    world = make_world(tmp_path, monkeypatch, arguments=(argument,))
    world.node.files.links.update(links)
    world.node.disk.update({path: BEFORE, f"{DROP_INS}/00-site.conf": b"eventBurst: 60\n"})
    world.disk = dict(world.node.disk)
    world.settings = replace(world.settings, files=tmp_path / "files")
    return world, path


def wish_for(world: World, path: str, content: bytes) -> None:
    world.kube.wish(files=(wanted(path, content),))
    bring(world, 0, content)


async def test_a_file_that_the_kubelet_reads_through_a_link_is_exchanged(linked: tuple[World, str]) -> None:
    world, path = linked
    wish_for(world, path, AFTER)

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert world.node.disk[path] == AFTER
    assert leftovers(world) == []


async def test_the_new_kubelet_is_judged_by_the_new_file_behind_a_link(linked: tuple[World, str]) -> None:
    world, path = linked
    wish_for(world, path, b"maxPods: 1\n")

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.POD_WOULD_NOT_BE_ADMITTED), status.message
    assert untouched(world)


async def test_a_link_that_is_turned_after_planning_turns_the_run_back_before_the_kubelet_is_stopped(
    linked: tuple[World, str],
) -> None:
    world, path = linked
    wish_for(world, path, AFTER)
    (link, *_) = world.node.files.links
    elsewhere = f"/srv/kubelet/{Path(path).name}" if link.startswith("/opt") else "/srv/kubelet.yaml"

    def turn(moment: str) -> None:
        if moment == "write_plan done":
            world.node.disk[elsewhere] = BEFORE
            world.node.files.links[link] = "/srv/kubelet" if link.startswith("/opt") else elsewhere

    world.hook = turn

    status = await world.serve()

    assert status.phase is TaskPhase.ROLLED_BACK, status.message
    assert "symbolic link was changed" in status.message
    assert world.stops == 0
    assert world.node.disk[path] == BEFORE


@pytest.mark.parametrize(
    ("argument", "links", "said"),
    [
        ("--kubeconfig=/opt/kubelet.conf", {"/opt/kubelet.conf": ELSEWHERE}, "kubeconfig"),
        ("--cert-dir=/opt/pki", {"/opt/pki": "/etc/kubernetes"}, "writes to"),
        ("--v=2", {"/var/lib/kubelet/pki": "/etc/kubernetes"}, "writes to"),
        ("--v=2", {"/etc/systemd/system/kubelet.service.d/10-site.conf": ELSEWHERE}, "a unit of systemd"),
    ],
    ids=["the kubeconfig", "certificates", "certificates by default", "a drop-in"],
)
async def test_what_no_run_may_exchange_is_recognised_behind_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, links: dict[str, str], said: str
) -> None:
    world = make_world(tmp_path, monkeypatch, arguments=(argument,))
    world.node.files.links.update(links)
    world.node.disk[ELSEWHERE] = BEFORE
    world.disk = dict(world.node.disk)
    world.settings = replace(world.settings, files=tmp_path / "files")
    wish_for(world, ELSEWHERE, AFTER)
    if said == "a unit of systemd":
        status_of = world.node.services.status
        monkeypatch.setattr(world.node.services, "status", lambda name: replace(status_of(name), drop_ins=(*links,)))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.FILE_NOT_REPLACEABLE), status.message
    assert said in status.message
    assert untouched(world)


async def test_a_new_file_in_a_linked_directory_is_refused_like_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path, monkeypatch)
    world.node.files.links["/etc/kubelet"] = "/opt/kubelet"
    world.node.disk["/opt/kubelet/other"] = BEFORE
    world.disk = dict(world.node.disk)
    world.settings = replace(world.settings, files=tmp_path / "files")
    wish_for(world, "/etc/kubelet/new.yaml", AFTER)

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.FILE_NOT_REPLACEABLE), status.message
    assert "symbolic link" in status.message
    assert untouched(world)
