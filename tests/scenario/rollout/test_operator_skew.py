"""The operator is itself upgraded while nodes are in flight: the new version goes on from what the old one has written.

What the previous version writes is recorded in tests/golden/operator-skew.json; see skew_recording.py. The new version
leads in a term of its own, so that it takes the rollout over.
"""

import asyncio
import json
from pathlib import Path

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import EPOCH_MARK
from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.fleet.agents.manifests import AgentPodSettings
from tests.doubles.passes import Passes
from tests.scenario.rollout.harness import NAMESPACE, Scene
from tests.scenario.rollout.skew_recording import comparable, restored
from tests.scenario.rollout.terms import FixedTerm

RECORDED: Json = json.loads((Path(__file__).parents[2] / "golden" / "operator-skew.json").read_text())
STAGED, WRITES = RECORDED["staged"], RECORDED["writes"]
EVENTS = "events"


class Replaced(Scene):
    """The cluster with an operator of this version, in a term of its own."""

    def new_operator(self) -> Passes:
        agents = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev")
        return Passes(self.kube, agents, term=FixedTerm("2-new"))


def after(writes: int) -> Scene:
    return restored(json.loads(json.dumps(WRITES[:writes])), Replaced)


CUTS = [
    number for number in range(STAGED, len(WRITES) + 1) if number == STAGED or WRITES[number - 1]["key"][0] != EVENTS
]


@pytest.mark.parametrize("part", range(4))
def test_the_new_version_continues_what_the_old_one_began(part: int) -> None:
    async def play(writes: int) -> None:
        scene = after(writes)
        await scene.finish()
        assert comparable(await scene.end_state()) == RECORDED["end"], writes
        assert scene.highest_in_flight <= 2, writes

    for writes in CUTS[part::4]:
        asyncio.run(play(writes))


NEW = {
    ("nodeupgrades", "status.leader"),
    ("nodeupgradetasks", f"metadata.annotations.{EPOCH_MARK}"),
}
"""What the old version has not written, since it led in no term. It ignores what it does not know."""


async def test_it_leaves_nothing_that_the_old_one_would_not_read() -> None:
    """Back to the old version in mid-flight: it ignores all that is new, which says nothing that it would not do."""
    scene = after(STAGED)
    for _ in range(8):
        await scene.step()
    assert await scene.in_flight()
    upgrade = await scene.kube.get(UPGRADES, "to-1-33")
    assert upgrade["status"]["leader"] == "2-new"
    known = {(write["key"][0], path) for write in WRITES if write["body"] for path in paths(write["body"])}
    present = {(plural, path) for (plural, _, _), body in scene.kube._objects.items() for path in paths(body)}
    apart = "metadata.managedFields"  # the API server's own
    assert {(plural, path) for plural, path in present - known if not path.startswith(apart)} <= NEW


def paths(value: object, above: str = "") -> set[str]:
    """The paths of all fields; the items of a list are alike."""
    found: set[str] = set()
    if isinstance(value, dict):
        for key, item in value.items():
            here = f"{above}.{key}".lstrip(".")
            found |= {here} | paths(item, here)
    if isinstance(value, list):
        for item in value:
            found |= paths(item, f"{above}[]")
    return found
