"""A canary whose Node object is deleted in the middle of its run, on three real nodes: nobody passes it unapproved."""

import pytest

from e2e.cluster import disturbed, reported
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
    """Deleting a Node deletes its pods and labels; what remains of the canary is its slot, and then its failure."""
    own = fleet.operator_node()
    canary = next(name for name in fleet.nodes if name != own)
    others = [node for name, node in fleet.nodes.items() if name != canary]
    before = {node.name: node.settled(quiet=2) for node in others}
    fleet.lab.kubectl("label", "node", canary, CANARY)
    key, _, value = CANARY.partition("=")
    waves = [
        {"name": "canary", "selector": {"matchLabels": {key: value}}, "soak": "5s"},
        {"name": "production", "size": "100%", "approval": "Manual"},
    ]
    fleet.apply("lost", NEW, waves=waves, strategy={"failureThreshold": 3}, timeouts={"node": "2m"})
    fleet.wait_in_flight("lost", canary)
    uid = fleet.lab.api.get("nodes", canary)["metadata"]["uid"]
    (slot,) = fleet.get("lost")["status"]["inFlight"]
    assert (slot["node"], slot["uid"], slot["wave"]) == (canary, uid, "canary")
    fleet.wait("lost", "its agent works", lambda _: reported(fleet.task(canary)).get("phase"))
    fleet.lab.kubectl("delete", "node", canary, "--wait=false")

    waiting = fleet.wait_condition("lost", "Reconciling", "True", "AwaitingApproval")

    # A run that had begun is lost, and one that had not is over; if its kubelet starts, its Node registers anew.
    failures = waiting["status"].get("failures", [])
    assert [(each["node"], each["uid"], each["wave"]) for each in failures] in ([], [(canary, uid, "canary")])
    assert waiting["status"].get("inFlight", []) == []
    assert [wave["state"] for wave in waiting["status"]["waves"]][1] == "AwaitingApproval"
    assert {version for name, version in fleet.versions().items() if name != canary} == {OLD}

    fleet.annotate("lost", "approve", "production")
    fleet.wait("lost", "it is over", lambda upgrade: upgrade["status"].get("completedAt"))
    assert {version for name, version in fleet.versions().items() if name != canary} == {NEW}
    assert fleet.cordoned() == set()
    found = [each for node in others for each in disturbed(before[node.name], node.settled(quiet=2))]
    assert [difference for difference in found if "nodeupgrade-operator" not in difference.pod] == []
