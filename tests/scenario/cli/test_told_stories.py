"""Whole rollouts as stories: one line per decision, with its reason. Reviewers read the difference.

Whatever a rollout goes through, everything about it can be told, and what is told agrees with what is decided.

``UPDATE_GOLDEN=1 pytest tests/scenario/cli/test_told_stories.py`` writes the narrations anew.
"""

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from nodeupgrade.api.task.object import parse_task
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.fleet import read_fleet
from nodeupgrade.cli.program import CannotError
from nodeupgrade.cli.reports.failures import failures
from nodeupgrade.cli.reports.node import NodeReport, active_for, choose_upgrade, cordon_of, membership
from nodeupgrade.cli.reports.overview import overview
from nodeupgrade.cli.screens import evidence, node, status
from nodeupgrade.cli.screens.status import by_reason
from nodeupgrade.cluster.kube_api import NODES, TASKS
from nodeupgrade.cluster.nodes import view_node
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.fleet.actions import Admit, FreeSlot, Reopen
from nodeupgrade.fleet.decide.membership import view_rollout
from nodeupgrade.fleet.decide.planner import plan
from nodeupgrade.fleet.decide.rollout_view import RolloutView
from nodeupgrade.fleet.snapshot import FleetSnapshot
from tests.enumeration import WHOLE
from tests.scenario.rollout.harness import Scene
from tests.scenario.rollout.storyfile import STORIES, read_story
from tests.scenario.rollout.storyplay import Player

TOLD = 7 if WHOLE else 101
COMPARED = 1 if WHOLE else 5
"""Every how many moments all is told, and what is decided is compared."""

SEED, GOLDEN_SEED = 1, 2
"""Of the order in which objects are listed. Nothing may depend on it: narrations are written with another one."""


def draw(part: RenderableType) -> str:
    console = Console(width=120, color_system=None)
    with console.capture() as captured:
        console.print(part)
    return captured.get()


async def tell_everything(scene: Scene, told_already: set[str]) -> None:
    """Tell all that there is to tell at one moment; of tasks, what has changed since it was told."""
    upgrades = await cluster_objects.upgrades(scene.kube)
    tasks = [parse_task(body) for body in await scene.kube.list(TASKS)]
    for upgrade in upgrades:
        seen = overview(upgrade, {task.name: task for task in tasks}, scene.now)
        assert seen.document()["name"] in draw(status.one(seen, scene.now))
        assert (seen.status.phase or "Pending") in status.line(seen)
        failed = failures(upgrade, tasks)
        draw(by_reason(upgrade.name, failed, scene.now))
        counts = upgrade.status.counts
        assert len(failed) >= counts.failed + counts.rolled_back + counts.rollback_failed
    for task in tasks:
        if task.resource_version not in told_already:
            assert task.name in draw(evidence.proof(task, scene.now))
            evidence.document(task)
    told_already.update(task.resource_version for task in tasks)
    for view in map(view_node, await scene.kube.list(NODES)):
        its_task = next((task for task in tasks if task.name == view.name), None)
        about = choose_upgrade(upgrades, view, its_task)
        survey = None if about is None else await survey_of(scene, about.name)
        told = NodeReport(
            node=view,
            upgrade=about,
            membership=None if survey is None else membership(survey[1], view.name, scene.now),
            task=its_task,
            selected_by=tuple(each.name for each in active_for(upgrades, view)),
            cordon=cordon_of(view, upgrades),
        )
        assert view.name in draw(node.node_report(told, scene.now))
        told.document()


async def survey_of(scene: Scene, name: str) -> tuple[FleetSnapshot, RolloutView] | None:
    """Look as explain-node does; None if the rollout is gone or not valid."""
    try:
        upgrade = await cluster_objects.upgrade(scene.kube, name)
    except CannotError:
        return None
    fleet = await read_fleet(scene.kube, upgrade)
    pods = {node: tuple(map(parse_pod, await scene.kube.list_pods_on_node(node))) for node in fleet.nodes}
    fleet = replace(fleet, pods=pods)
    return None if upgrade.spec is None else (fleet, view_rollout(fleet, upgrade.spec, scene.now))


async def compare_with_decisions(scene: Scene, name: str) -> int:
    """A node is told to be started next exactly if it is, unless its slot is only given back now; how many are."""
    if (survey := await survey_of(scene, name)) is None:
        return 0
    fleet, rollout = survey
    if rollout.spec.health_checks:  # only the operator knows how they are, so that what is foretold depends on them
        return 0
    members = {node: membership(rollout, node, scene.now) for node in fleet.nodes}
    started = {node for node, place in members.items() if place is not None and place.waits.startswith("nothing")}
    planned = plan(fleet, scene.now).actions
    admitted = {action.node for action in planned if isinstance(action, Admit)}
    if any(isinstance(action, Reopen) for action in planned):  # what was examined waits for its turn again first
        return 0
    if any(isinstance(action, FreeSlot) for action in planned):
        assert started <= admitted
        return 0
    if admitted or rollout.planned:
        assert started == admitted
    return len(admitted)


async def tell_a_story(path: Path, monkeypatch: pytest.MonkeyPatch, *, every: int = COMPARED) -> int:
    """Play a story and tell everything on the way; return how many admissions were foretold."""
    compared, moments, told_already = 0, itertools.count(), set[str]()
    observe = Scene.observe

    async def observe_and_tell(scene: Scene, name: str = "to-1-33") -> None:
        nonlocal compared
        await observe(scene, name)
        moment = next(moments)
        if moment % every == 0:
            compared += await compare_with_decisions(scene, name)
        if moment % TOLD == 0:
            await tell_everything(scene, told_already)

    monkeypatch.setattr(Scene, "observe", observe_and_tell)
    story = read_story(path)
    assert await Player(story, SEED).play() == story.narration
    assert next(moments)
    return compared


@pytest.mark.parametrize("path", STORIES.values(), ids=STORIES.keys())
async def test_story(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        story = read_story(path)
        story.rewrite(await Player(story, GOLDEN_SEED).play())
    await tell_a_story(path, monkeypatch)


async def test_admissions_are_foretold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where time or people open a gate between two looks there is nothing to foretell; here nobody does."""
    assert await tell_a_story(STORIES["many_at_a_time"], monkeypatch, every=1) == 3
