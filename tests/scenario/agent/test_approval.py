"""A task that was changed after the operator created the agent is not acted upon, and no secret outlives the run."""

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeupgrade.api.json import to_json
from nodeupgrade.api.node_files import KeyReference, NodeFile
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.approved_settings import approval
from nodeupgrade.api.task.run_id import attempt_of
from nodeupgrade.api.task.spec import TaskAction, TaskSpec
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.node.journal.journal_file import FileJournal
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_directories import PLAN, RunStore
from tests.doubles.node.containers.pods import MANIFESTS, manifest
from tests.scenario.agent.harness import World, make_world, untouched, upgraded

VALUE = "swordfish-in-every-container"


def spec_of(world: World) -> TaskSpec:
    assert world.kube.task is not None
    return world.kube.task.spec


def agent_of_the_operator(world: World) -> None:
    """The agent's pod says for which task it was created."""
    world.settings = replace(world.settings, approved=approval(spec_of(world)))


async def test_the_task_is_still_the_one_that_was_approved(world: World) -> None:
    agent_of_the_operator(world)

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert upgraded(world)


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
async def test_another_program_in_its_place_is_refused(world: World, action: TaskAction) -> None:
    world.kube.wish(action=action)
    agent_of_the_operator(world)
    world.kube.wish(artifact=replace(spec_of(world).artifact, path="/tmp/evil", sha256="e" * 64))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.NOT_ALLOWED)
    assert untouched(world)


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
async def test_other_files_than_were_approved_are_refused(world: World, action: TaskAction) -> None:
    source = KeyReference(name="kubelet", key="config")
    file = NodeFile(path="/var/lib/kubelet/config.yaml", sha256="a" * 64, config_map_key_ref=source)
    world.kube.wish(action=action, files=(file,))
    agent_of_the_operator(world)
    world.kube.wish(files=(replace(file, path="/etc/kubernetes/ca.crt"),))

    status = await world.serve()

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.NOT_ALLOWED)
    assert untouched(world)


def texts(world: World) -> Iterator[str]:
    """All that we have written on the node, but for the plan, which keeps the manifests that it pins; and the task."""
    for path in Path(world.root).rglob("*"):
        if path.is_file() and path.name != PLAN:
            yield path.read_bytes().decode(errors="replace")
    yield from (repr(to_json(told)) for told in world.kube.statuses)


def tells(text: str) -> bool:
    """Whether the secret is in a text, plainly or in base64."""
    decoded = (base64.b64decode(found + "=" * (-len(found) % 4)) for found in re.findall(r"[A-Za-z0-9+/]{24,}", text))
    return VALUE in text or any(VALUE.encode() in each for each in decoded)


@pytest.mark.parametrize("scrubbed", [True, False], ids=["as it is", "the control: before-images are kept"])
async def test_no_value_of_a_container_is_left_in_journal_log_or_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], scrubbed: bool
) -> None:
    pinned = manifest("etcd", "etcd").replace(
        b"name: etcd,", f"name: etcd, env: [{{name: A, value: {VALUE}}}],".encode()
    )
    world = make_world(tmp_path, monkeypatch, manifests={"etcd.yaml": pinned})
    if not scrubbed:
        monkeypatch.setattr(FileJournal, "scrub", lambda _journal: None)
        monkeypatch.setattr(RunStore, "retire", lambda _runs: None)

    assert (await world.serve()).phase is TaskPhase.SUCCEEDED
    assert any(tells(text) for text in texts(world)) is not scrubbed
    assert not any(map(tells, capfd.readouterr()))


async def test_no_value_of_a_static_pod_that_came_meanwhile_is_left_either(world: World) -> None:
    """Its manifest is in the agent's answer and in the amendment of the plan."""
    came = manifest("late", "late").replace(b"name: late,", f"name: late, env: [{{name: A, value: {VALUE}}}],".encode())
    late = f"{MANIFESTS}/late.yaml"
    world.node.calls.before("services.mask kubelet.service", lambda: world.node.disk.update({late: came}))
    world.node.calls.durations["services.mask kubelet.service"] = 2.0

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED
    assert [c.name for asked in world.asked for c in asked.inventory.containers] == ["late"]
    assert late in {each.path for each in status.manifests}
    assert [text for text in texts(world) if tells(text)] == []
    attempt = attempt_of(world.settings.run_id, 1)
    plan = plan_in_effect(world.runs.require_plan(attempt), world.runs.read_journal(attempt))
    assert late in {each.path for each in plan.pins}
