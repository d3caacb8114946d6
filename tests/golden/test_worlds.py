"""The clusters that docs/generated/cli.md shows are possible ones."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from tests.golden.cli.cluster import HERE, NOW, WORLD, Cluster
from tests.golden.cli.worlds import of_rollout, of_world

RECORDED = sorted((HERE.parent / "gitops").glob("*.yaml"))


def test_the_cluster_of_the_screens_is_a_possible_one() -> None:
    assert list(of_world(Cluster(*WORLD).kube, NOW)) == []


@pytest.mark.parametrize("recorded", RECORDED, ids=[path.stem for path in RECORDED])
def test_what_was_recorded_from_the_planner_is_possible(recorded: Path) -> None:
    """A control: the rules hold for statuses that nobody wrote by hand."""
    body = yaml.safe_load(recorded.read_text(encoding="utf-8"))
    body["metadata"]["resourceVersion"] = "1"
    assert list(of_rollout(parse_upgrade(body).status)) == []


def rollout(change: Callable[[Json], object]) -> Callable[[Cluster], None]:
    return _changed("kubelet-1-33-13", change)


def task(name: str, change: Callable[[Json], object]) -> Callable[[Cluster], None]:
    return _changed(name, change)


def _changed(name: str, change: Callable[[Json], object]) -> Callable[[Cluster], None]:
    def apply(cluster: Cluster) -> None:
        body = asyncio.run(cluster.kube.get(UPGRADES if name.startswith("kubelet-") else TASKS, name))
        change(body)
        cluster.add(body)

    return apply


IMPOSSIBLE: dict[str, tuple[Callable[[Cluster], None], str]] = {
    "succeeded in mid-wave": (rollout(lambda body: body["status"].update(phase="Succeeded")), "it succeeded, and"),
    "progress without nodes": (rollout(lambda body: body["status"].update(progress="12/12")), "progress is 12/12"),
    "nothing restarted, and one did": (
        rollout(lambda body: body["status"]["containers"].update(restarted=0)),
        "containers is",
    ),
    "another story in the list of failures": (
        rollout(lambda body: body["status"]["failures"][0].update(message="nothing restarted")),
        "failures is",
    ),
    "60 of 61, and 61": (
        task("web-c-1", lambda body: body["spec"]["verdict"].update(message="61 containers counted")),
        "'61 containers counted', and unchanged",
    ),
    "rolled back with new hashes": (
        task("web-a-1", lambda body: body["status"]["containers"].update(rewritten=40)),
        "nothing was upgraded, and hashes are rewritten",
    ),
    "a step left out": (task("web-c-1", lambda body: body["status"]["steps"].pop(3)), "the steps are"),
    "a verdict of its own": (
        task("web-a-2", lambda body: body["spec"]["verdict"].update(message="no")),
        "does not repeat",
    ),
}


@pytest.mark.parametrize(("make", "wrong"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_an_impossible_cluster_is_found(make: Callable[[Cluster], None], wrong: str) -> None:
    cluster = Cluster(*WORLD)
    make(cluster)
    assert re.search(wrong, "\n".join(of_world(cluster.kube, NOW)))
