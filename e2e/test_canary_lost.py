"""A canary whose Node object is deleted in the middle of its run, on three real nodes: nobody passes it unapproved."""

import pytest

from e2e.cluster import conditions, reported
from e2e.conftest import MakeLab
from e2e.fleet import Fleet

pytestmark = [pytest.mark.long, pytest.mark.slow]

OLD, NEW = "1.30.14", "1.33.13"
PODS = 4
CANARY = "example.com/tier=canary"


@pytest.fixture(scope="module")
def fleet(make_lab: MakeLab) -> Fleet:
    return Fleet.with_operator(make_lab("e2e-canary", OLD, nodes=3), pods=PODS)


def test_production_waits_for_its_approval_although_the_canary_lost_its_node(fleet: Fleet) -> None:
    """The Node registers anew without its labels, as soon as the new kubelet starts; its slot says what it was."""
    own = fleet.operator_node()
    canary = next(name for name in fleet.nodes if name != own)
    before = fleet.settled()
    fleet.lab.kubectl("label", "node", canary, CANARY)
    key, _, value = CANARY.partition("=")
    waves = [
        {"name": "canary", "selector": {"matchLabels": {key: value}}, "soak": "5s"},
        {"name": "production", "size": "100%", "approval": "Manual"},
    ]
    fleet.apply("lost", NEW, waves=waves, strategy={"failureThreshold": 3})
    assert fleet.wait_in_flight("lost", canary) == canary
    uid = fleet.lab.api.get("nodes", canary)["metadata"]["uid"]
    (slot,) = fleet.get("lost")["status"]["inFlight"]
    assert (slot["node"], slot["uid"], slot["wave"]) == (canary, uid, "canary")
    fleet.wait(
        "lost", "the run has begun", lambda _: reported(fleet.task(canary)).get("phase") in {"Staged", "Running"}
    )
    fleet.lab.kubectl("delete", "node", canary, "--wait=false")

    def registered(_: object) -> bool:
        found = {node["metadata"]["name"]: node["metadata"]["uid"] for node in fleet.lab.api.list("nodes")}
        return found.get(canary) not in {None, uid}

    fleet.wait("lost", "its Node registers anew", registered)
    waiting = fleet.wait_condition("lost", "Reconciling", "True", "AwaitingApproval")

    assert fleet.versions() == {name: NEW if name == canary else OLD for name in fleet.nodes}
    assert waiting["status"].get("inFlight", []) == []
    assert [wave["state"] for wave in waiting["status"]["waves"]] == ["Completed", "AwaitingApproval"]
    assert fleet.cordoned() == set()

    fleet.annotate("lost", "approve", "production")
    done = fleet.wait_condition("lost", "Succeeded", "True")
    assert set(fleet.versions().values()) == {NEW}
    assert conditions(done)["ZeroRestart"]["status"] in {"True", "Unknown"}
    assert fleet.disturbed(before, but="nodeupgrade-") == []
