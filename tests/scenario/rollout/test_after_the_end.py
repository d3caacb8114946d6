"""A rollout that has ended takes note of every edit of its spec, which is without effect.

To kstatus an object whose latest generation is not observed is in progress: Flux and Argo CD would wait for ever.
"""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import ConditionStatus, ConditionType, UpgradeStatus
from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from nodeupgrade.sources.allowlist import Allowed
from tests.doubles.kube_fleet import Part
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, Scene


async def ended(part: Part, **spec: Any) -> Scene:
    scene = Scene(parts={"node-0": part})
    await scene.fleet.add_node("node-0")
    await scene.apply(**spec)
    await scene.finish()
    assert (await scene.upgrade()).finished
    return scene


async def edit(scene: Scene, **spec: Any) -> Upgrade:
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": spec})
    for _ in range(5):
        await scene.step()
    return await scene.upgrade()


def without_generations(status: UpgradeStatus) -> UpgradeStatus:
    conditions = tuple(replace(each, observed_generation=0) for each in status.conditions)
    return replace(status, observed_generation=0, conditions=conditions)


def observed(upgrade: Upgrade) -> set[int]:
    status = upgrade.status
    return {status.observed_generation, *(each.observed_generation for each in status.conditions)}


@pytest.mark.parametrize(
    ("part", "spec", "phase"),
    [(Part.SUCCEED, {}, "Succeeded"), (Part.ROLL_BACK, {}, "Failed"), (Part.SUCCEED, {"action": "Abort"}, "Aborted")],
)
async def test_an_edit_is_observed_and_changes_nothing_else(part: Part, spec: dict[str, Any], phase: str) -> None:
    scene = await ended(part, **spec)
    before = await scene.upgrade()
    after = await edit(scene, strategy={"maxConcurrent": 5, "failureThreshold": 5})

    assert after.status.phase == phase
    assert observed(after) == {after.generation}
    assert after.generation > before.generation
    assert without_generations(after.status) == without_generations(before.status)
    revision = scene.kube._revision
    assert (await scene.operator.reconcile("to-1-33")).over
    assert scene.kube._revision == revision, "it is written once"


async def test_an_operator_that_starts_later_observes_it() -> None:
    scene = await ended(Part.SUCCEED)
    await scene.kube.merge(UPGRADES, "to-1-33", {"spec": {"strategy": {"maxConcurrent": 5}}})
    scene.operator = scene.new_operator()
    assert await scene.operator.unfinished() == ("to-1-33",)
    await scene.step()
    assert await scene.operator.unfinished() == ()


async def test_an_edit_is_observed_while_a_retry_waits() -> None:
    scene = await ended(Part.ROLL_BACK)
    agents = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=Allowed(paths=()))
    scene.operator = Passes(scene.kube, agents)
    await scene.kube.merge(UPGRADES, "to-1-33", {"metadata": {"annotations": {"nodeupgrade.dev/retry": "1"}}})
    upgrade = await edit(scene, strategy={"maxConcurrent": 5})
    assert upgrade.retry_requested
    assert observed(upgrade) == {upgrade.generation}


@pytest.mark.parametrize("spec", [{"action": "Plan"}, {"action": "Pause"}, {"waves": [{"name": "w", "size": 2}]}])
@pytest.mark.parametrize("edits", [{"strategy": {"maxConcurrent": 5}}, {"version": "v1.33.12"}])
async def test_an_edit_is_observed_before_the_end(spec: dict[str, Any], edits: dict[str, Any]) -> None:
    """Also one that is not accepted, on an API server that lets it pass."""
    scene = Scene()
    await scene.fleet.add_node("node-0")
    hold = {"metadata": {"annotations": {"nodeupgrade.dev/hold": "burn-in"}}}
    await scene.fleet.add_node("node-1", overrides=hold)
    await scene.apply(**spec)
    for _ in range(30):
        await scene.step()
    upgrade = await edit(scene, **edits)
    assert not upgrade.finished
    assert observed(upgrade) == {upgrade.generation}


async def test_a_change_that_is_not_carried_out_is_not_observed_and_told() -> None:
    """CRDs without CEL let it pass. To be observed would mean to GitOps that every node has that version."""
    scene = await ended(Part.SUCCEED)
    before = await scene.upgrade()
    changed = await edit(scene, version="v1.33.12")

    accepted = changed.status.condition(ConditionType.ACCEPTED)
    assert (accepted.status, accepted.reason) == (ConditionStatus.FALSE, Reason.SPEC_CHANGE_REJECTED)
    assert accepted.observed_generation == changed.generation
    assert changed.status.observed_generation == before.generation
    revision = scene.kube._revision
    await scene.operator.reconcile("to-1-33")
    assert scene.kube._revision == revision, "it is written once"

    again = await edit(scene, version="v1.33.13")
    assert observed(again) == {again.generation}
    assert again.status.condition(ConditionType.ACCEPTED).reason == Reason.VALID
    assert again.status.holds(ConditionType.READY)


async def test_an_edit_is_observed_whatever_the_reason_of_the_end() -> None:
    scene = await ended(Part.ROLL_BACK)
    body = await scene.kube.get(UPGRADES, "to-1-33")
    conditions = [{**each, "reason": "ReasonOfALaterVersion"} for each in body["status"]["conditions"]]
    status, version = {**body["status"], "conditions": conditions}, body["metadata"]["resourceVersion"]
    await scene.kube.replace_status(UPGRADES, "to-1-33", status, resource_version=version)
    after = await edit(scene, strategy={"maxConcurrent": 5})
    assert observed(after) == {after.generation}
