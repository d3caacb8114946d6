"""The recorded objects are what the planner writes today.

``UPDATE_GOLDEN=1 pytest tests/contract/gitops`` records them anew, and the tables of the documentation with them.
"""

import os

import pytest
import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import NODES, PODS, TASKS, UPGRADES
from tests.contract.gitops.kstatus import CURRENT, FAILED, IN_PROGRESS, kstatus
from tests.contract.gitops.recorded import golden, is_true, load
from tests.contract.gitops.recordings import MOMENTS, NAME, PASSES, record, succeeded, until, upgrade_of


@pytest.mark.parametrize("name", MOMENTS)
async def test_recorded_object_is_what_the_planner_writes(name: str) -> None:
    body = await record(MOMENTS[name])
    text = yaml.safe_dump(body, sort_keys=False, width=1000)
    if os.environ.get("UPDATE_GOLDEN"):
        golden(name).write_text(text, encoding="utf-8")
    assert text == golden(name).read_text(encoding="utf-8")


def test_nothing_else_is_recorded() -> None:
    assert set(load()) == set(MOMENTS)


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"strategy": {"maxConcurrent": 2}},
        {"waves": [{"name": "canary", "size": 1, "soak": "5m"}], "strategy": {"nodeInterval": "1m"}},
        {"windows": [{"start": "30 9 * * *", "duration": "1h", "timeZone": "Asia/Tokyo"}]},
        {"strategy": {"growth": {"type": "Exponential"}, "maxConcurrent": 3}},
    ],
    ids=["one by one", "two", "waves", "window", "growing"],
)
async def test_nobody_is_paged_on_the_way_to_success(terms: Json) -> None:
    """Flux gives up at the first Failed that it sees, and so does a sync of Argo CD."""
    scene = await upgrade_of(4, **terms)
    seen: list[str] = []
    while not seen or seen[-1] != CURRENT:
        assert len(seen) < PASSES, (await scene.kube.get(UPGRADES, NAME))["status"]
        body = await scene.kube.get(UPGRADES, NAME)
        seen.append(kstatus(body) if "status" in body else IN_PROGRESS)
        await scene.step()
    assert FAILED not in seen


async def test_applied_again_it_touches_nothing() -> None:
    scene = await succeeded()
    await scene.kube.delete(UPGRADES, NAME)
    while await scene.kube.list(UPGRADES):
        await scene.step()
    before = [await scene.kube.list(kind) for kind in (NODES, TASKS, PODS)]
    await scene.apply()
    await until(scene, is_true("Succeeded"))
    assert [await scene.kube.list(kind) for kind in (NODES, TASKS, PODS)] == before
