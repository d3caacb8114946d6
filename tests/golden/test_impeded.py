"""What people see of a rollout that cannot make progress: the cause, in the words of the API server."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.cli.inputs.fleet import read_fleet
from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.fleet.actions import CreateAgent, WriteStatus
from nodeupgrade.fleet.decide.planner import plan
from nodeupgrade.fleet.setbacks import next_setback
from tests.golden.cli.cluster import WORLD, Cluster, check

ROLLOUT, NODE = "kubelet-1-33-13", "web-a-4"
DENIED = (
    "cannot POST /api/v1/namespaces/nodeupgrade-system/pods because the API server answers 403: pods "
    f'"nodeupgrade-agent-{NODE}" is forbidden: violates PodSecurity "restricted:latest": host namespaces '
    '(hostPID=true), privileged (containers "artifact", "agent" must not set securityContext.privileged=true), '
    'allowPrivilegeEscalation != false (containers "artifact", "agent" must set '
    'securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers "artifact", "agent" must '
    'set securityContext.capabilities.drop=["ALL"]), restricted volume types (volumes "host", "run" use restricted '
    'volume type "hostPath"), runAsNonRoot != true (pod or containers "artifact", "agent" must set '
    "securityContext.runAsNonRoot=true)"
)
"""What an API server says where nobody has exempted the operator's namespace from pod security."""


def impeded(cluster: Cluster) -> Json:
    """The NodeUpgrade as the operator leaves it whose agent for a node in flight is refused."""
    body = cluster.get(UPGRADES, ROLLOUT)
    fleet = asyncio.run(read_fleet(cluster.kube, parse_upgrade(body)))
    refused = next_setback(None, CreateAgent, DENIED, cluster.now - timedelta(seconds=8))
    fleet = replace(fleet, setbacks={(parse_upgrade(body).status.flying[-1], CreateAgent): refused})
    (status,) = (action.status for action in plan(fleet, cluster.now).actions if isinstance(action, WriteStatus))
    return {**body, "status": to_json(status)}


def test_the_cause_is_on_every_first_screen() -> None:
    cluster = Cluster(*WORLD)
    cluster.add(impeded(cluster))
    lines = ("status", f"status {ROLLOUT}", f"status {ROLLOUT} --watch --timeout 1s", f"explain-node {NODE}")
    transcripts = [cluster.run(f"nodeupgrade {line}") for line in lines]
    check("impeded.txt", transcripts)
    for screen in transcripts[1:]:
        assert 'violates PodSecurity "restricted:latest"' in " ".join(screen.split())


def test_what_only_the_operator_objects_to_is_what_a_node_waits_for() -> None:
    """Its configuration is not to be seen from outside; the condition tells."""
    cluster = Cluster(*WORLD)
    body = cluster.get(UPGRADES, ROLLOUT)
    [accepted] = [each for each in body["status"]["conditions"] if each["type"] == "Accepted"]
    accepted |= {"status": "False", "reason": "NotAllowed", "message": "the configuration does not allow URL x"}
    cluster.add(body)
    said = " ".join(cluster.run("nodeupgrade explain-node web-b-1").split())
    assert "Waits for the spec to be accepted: the configuration does not allow URL x" in said
    accepted["observedGeneration"] -= 1
    cluster.add(body)
    assert "to be accepted" not in cluster.run("nodeupgrade explain-node web-b-1"), "the spec has changed since"
