"""NodeUpgrades at telling moments, as the real planner leaves them on an API server in memory."""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from uuid import UUID

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import PAUSE_ANNOTATION, RETRY_ANNOTATION
from nodeupgrade.cluster.kube_api import NODES, UPGRADES
from tests.contract.gitops.recorded import in_flight, is_true, reason_is
from tests.doubles.kube_fleet import Part
from tests.scenario.rollout.harness import Scene
from tests.scenario.rollout.test_stories import stage

Moment: TypeAlias = Callable[[], Awaitable[Scene]]

PASSES = 300


async def created() -> Scene:
    """Nobody has looked at it yet."""
    return await upgrade_of(2)


async def planning() -> Scene:
    return await until(await upgrade_of(2), lambda body: body.get("status", {}).get("phase") == "Planning")


async def running() -> Scene:
    return await until(await upgrade_of(2), in_flight(1))


async def awaiting_approval() -> Scene:
    waves = [{"name": "canary", "size": 1}, {"name": "rest", "size": "100%", "approval": "Manual"}]
    return await until(await upgrade_of(3, waves=waves), reason_is("Reconciling", "AwaitingApproval"))


async def soaking() -> Scene:
    waves = [{"name": "canary", "size": 1, "soak": "1h"}]
    return await until(await upgrade_of(3, waves=waves), reason_is("Reconciling", "Soaking"))


async def waiting_for_window() -> Scene:
    windows = [{"start": "0 22 * * *", "duration": "2h", "timeZone": "Europe/Berlin"}]
    return await until(await upgrade_of(2, windows=windows), reason_is("Reconciling", "WaitingForWindow"))


async def window_never_opens() -> Scene:
    scene = await upgrade_of(
        1,
        windows=[{"start": "0 12 * * *", "duration": "1h"}],
        blackouts=[{"from": "2025-01-01T00:00:00Z", "to": "2126-01-01T00:00:00Z"}],
    )
    return await until(scene, reason_is("Accepted", "WindowNeverOpens", "False"))


async def paused() -> Scene:
    return await until(await upgrade_of(2, action="Pause"), reason_is("Reconciling", "Paused"))


async def paused_by_annotation() -> Scene:
    scene = await upgrade_of(2)
    await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {PAUSE_ANNOTATION: "true"}}})
    return await until(scene, reason_is("Reconciling", "Paused"))


async def queued() -> Scene:
    return await until(await behind_another("Queue"), reason_is("Reconciling", "Queued"))


async def overlap_conflict() -> Scene:
    return await until(await behind_another("Fail"), reason_is("Stalled", "OverlapConflict"))


async def too_many_unavailable() -> Scene:
    scene = await upgrade_of(3)
    for name in ("node-8", "node-9"):
        await scene.fleet.add_node(name, overrides={"spec": {"unschedulable": True}})
    return await until(scene, reason_is("Stalled", "TooManyUnavailable"))


async def waiting_for_node() -> Scene:
    """A node is not Ready, and the rollout is told to wait for it."""
    scene = await upgrade_of(1, nodes={"selector": {"matchLabels": {"pool": "web"}}, "notReady": "Block"})
    await scene.fleet.add_node("node-9", overrides={"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    return await until(scene, reason_is("Reconciling", "NodeNotReady"))


async def threshold_reached() -> Scene:
    return await until(await upgrade_of(3, Part.ROLL_BACK), reason_is("Stalled", "FailureThresholdReached"))


async def retried() -> Scene:
    """The cause of the failure is mended, and somebody asks for another attempt."""
    scene = await threshold_reached()
    scene.parts.clear()
    await scene.kube.merge(UPGRADES, NAME, {"metadata": {"annotations": {RETRY_ANNOTATION: "2026-01-01"}}})
    return await until(scene, in_flight(1))


async def rollback_failed() -> Scene:
    return await until(await upgrade_of(1, Part.FAIL_TO_ROLL_BACK), reason_is("Stalled", "RollbackFailed"))


async def invalid_spec() -> Scene:
    return await until(await upgrade_of(1, version="1.33.13"), reason_is("Accepted", "InvalidSpec", "False"))


async def unsupported_version() -> Scene:
    return await until(await upgrade_of(1, version="v1.99.0"), reason_is("Accepted", "UnsupportedVersion", "False"))


async def spec_change_rejected() -> Scene:
    """On an API server that knows no CEL: another would not have taken the edit."""
    scene = await running()
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"version": "v1.32.0"}})
    return await until(scene, reason_is("Accepted", "SpecChangeRejected", "False"))


async def no_matching_nodes() -> Scene:
    return await until(await upgrade_of(0), reason_is("Stalled", "NoMatchingNodes"))


async def plan_ready() -> Scene:
    return await until(await upgrade_of(2, action="Plan"), reason_is("Planned", "PlanReady"))


async def hazards_found() -> Scene:
    return await until(await upgrade_of(2, Part.REFUSE, action="Plan"), reason_is("Planned", "HazardsFound"))


async def succeeded() -> Scene:
    return await until(await upgrade_of(2), reason_is("Succeeded", "AllNodesUpgraded"))


async def completed_with_skips() -> Scene:
    scene = await upgrade_of(1)
    await scene.fleet.add_node("node-9", version="v1.33.13")
    return await until(scene, reason_is("Succeeded", "CompletedWithSkips"))


async def created_again() -> Scene:
    """Deleted after its success and applied once more."""
    scene = await succeeded()
    await scene.kube.delete(UPGRADES, NAME)
    while await scene.kube.list(UPGRADES):
        await scene.step()
    await scene.apply()
    return await until(scene, is_true("Succeeded"))


async def failed() -> Scene:
    return await until(await upgrade_of(1, Part.ROLL_BACK), is_true("Succeeded", "False"))


async def refused() -> Scene:
    return await until(await upgrade_of(1, Part.REFUSE), is_true("Stalled"))


async def aborted() -> Scene:
    scene = await running()
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"action": "Abort"}})
    return await until(scene, reason_is("Succeeded", "Aborted", "False"))


async def deleting() -> Scene:
    scene = await running()
    await scene.kube.delete(UPGRADES, NAME)
    await scene.step()
    return scene


async def generation_lag() -> Scene:
    """It succeeded, and somebody edited it a moment ago."""
    scene = await succeeded()
    await scene.kube.merge(UPGRADES, NAME, {"spec": {"timeouts": {"node": "20m"}}})
    return scene


NAME = "to-1-33"

MOMENTS: dict[str, Moment] = {
    moment.__name__.replace("_", "-"): moment
    for moment in (
        created,
        planning,
        running,
        awaiting_approval,
        soaking,
        waiting_for_window,
        window_never_opens,
        paused,
        paused_by_annotation,
        queued,
        waiting_for_node,
        overlap_conflict,
        too_many_unavailable,
        threshold_reached,
        retried,
        rollback_failed,
        invalid_spec,
        unsupported_version,
        spec_change_rejected,
        no_matching_nodes,
        plan_ready,
        hazards_found,
        succeeded,
        completed_with_skips,
        created_again,
        failed,
        refused,
        aborted,
        deleting,
        generation_lag,
    )
}
"""By what the recorded object is called, in the order of the table."""

VOLATILE = frozenset({"resourceVersion", "managedFields"})


async def record(moment: Moment) -> Json:
    """Play up to a moment and return the NodeUpgrade, without what differs from run to run."""
    scene = await moment()
    body = await scene.kube.get(UPGRADES, NAME)
    uid = body["metadata"]["uid"]
    metadata = {key: value for key, value in body["metadata"].items() if key not in VOLATILE}
    # The API server fills this in, and the one in memory knows no schema.
    status = body.get("status", {"observedGeneration": -1})
    body = {**body, "metadata": metadata, "status": status}
    return _with_steady_uids(body, [uid, *(node["metadata"]["uid"] for node in await scene.kube.list(NODES))])


def _with_steady_uids(body: Json, uids: list[str]) -> Json:
    """Name the NodeUpgrade and its Nodes by their place in the list: their UIDs, and IDs of runs, differ each time."""
    text = json.dumps(body)
    for at, uid in enumerate(uids, start=1):
        text = text.replace(uid, str(UUID(int=at)))
    text = text.replace(f"{uids[0][:8]}-", f"{str(UUID(int=1))[:8]}-")
    steady: Json = json.loads(text)
    return steady


async def upgrade_of(nodes: int, first: Part = Part.SUCCEED, /, **spec: Any) -> Scene:
    """Stage a fleet, whose first node plays a part, and apply the NodeUpgrade."""
    scene = await stage(nodes, Scene(parts={"node-0": first}))
    await scene.apply(**spec)
    return scene


async def behind_another(policy: str) -> Scene:
    """An older NodeUpgrade is at work on the same nodes."""
    scene = await stage(2, Scene(parts={"node-0": Part.HANG}))
    await scene.apply("older")
    while not await scene.in_flight("older"):
        await scene.step("older")
    await scene.apply(overlapPolicy=policy)
    return scene


async def until(scene: Scene, seen: Callable[[Json], bool]) -> Scene:
    """Step until the NodeUpgrade looks as wanted."""
    for _ in range(PASSES):
        if seen(await scene.kube.get(UPGRADES, NAME)):
            return scene
        await scene.step()
    raise AssertionError(f"never seen; the last: {await scene.kube.get(UPGRADES, NAME)}")
