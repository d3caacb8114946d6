"""What only the operator knows, or may read, is told in its own words, and never taken for a finding."""

import json
from collections.abc import Collection

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import Verdict
from nodeupgrade.cluster.kube_api import CONFIGMAPS, TASKS, UPGRADES, ForbiddenError, Resource
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import InMemoryKube, merged
from tests.golden.cli.cluster import WORLD, Cluster
from tests.golden.test_cluster_cli import ROLLOUT, change, judge

NODE = "web-b-1"
NOTHING = "nothing: the operator starts it with its next pass"
CHECKS = [{"name": "errors", "prometheus": {"query": "up", "expression": "value < 1"}, "for": "3m"}]
BUDGET = "5 nodes of the cluster in flight, 7 unavailable; wait for other rollouts"
FAILS = "health check errors fails since 2026-03-02T09:30:00Z: value < 1 is false"


@pytest.fixture
def cluster() -> Cluster:
    """One in which NODE is next, as far as anybody but the operator can see."""
    cluster = Cluster(*WORLD)
    judge(cluster, Verdict.SUCCEEDED, "web-a-3", "web-a-4")
    cluster.run(f"nodeupgrade approve {ROLLOUT} rack-b")
    return cluster


def waits(cluster: Cluster, node: str = NODE) -> str:
    said = cluster.run(f"nodeupgrade explain-node {node}").partition("Waits for")[2].partition("Its task")[0]
    return " ".join(said.split())


def plan(cluster: Cluster, **spec: object) -> str:
    """What a plan of the rollout says of the nodes to start: as it is, or with another spec."""
    live = cluster.get(UPGRADES, ROLLOUT)
    written = {**live, "metadata": {"name": ROLLOUT}, "spec": {**live["spec"], **spec}, "status": {}}
    said = cluster.run("nodeupgrade plan -", stdin=json.dumps(written))
    return " ".join(said.partition("First ")[2].partition("Duration ")[0].split())


def tell(cluster: Cluster, reason: str, message: str, *kinds: str, status: str = "True", generation: int = 0) -> None:
    """Write conditions, as the operator does."""
    body = cluster.get(UPGRADES, ROLLOUT)
    facts: Json = {"status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-03-02T09:30:00Z"}
    facts["observedGeneration"] = generation or body["metadata"]["generation"]
    others = [each for each in body["status"]["conditions"] if each["type"] not in kinds]
    body["status"]["conditions"] = [*others, *({"type": kind, **facts} for kind in kinds)]
    cluster.add(body)


def test_nothing_holds_it_up(cluster: Cluster) -> None:
    assert waits(cluster) == NOTHING
    assert plan(cluster).endswith("would be started at once")


@pytest.mark.parametrize(
    ("kind", "reason", "message"),
    [
        ("Reconciling", "ClusterBudgetReached", BUDGET),
        ("Stalled", "NoProgress", f"nothing has changed since 2026-03-02T03:30:00Z, for more than 6h: {BUDGET}"),
    ],
)
def test_the_budget_of_the_cluster_is_told_as_the_operator_tells_it(
    cluster: Cluster, kind: str, reason: str, message: str
) -> None:
    tell(cluster, reason, message, kind)
    assert waits(cluster) == message
    assert plan(cluster) == f"none would be started now: {message}"


def test_what_it_told_of_an_older_spec_counts_for_nothing(cluster: Cluster) -> None:
    tell(cluster, "ClusterBudgetReached", BUDGET, "Reconciling", generation=1)
    assert waits(cluster) == NOTHING


def test_while_nodes_are_in_flight_the_status_tells_no_budget(cluster: Cluster) -> None:
    body, task = cluster.get(UPGRADES, ROLLOUT), cluster.get(TASKS, NODE)
    run = cluster.get(TASKS, "web-a-3")["spec"]["runID"]
    body["status"]["inFlight"] = [{"node": NODE, "uid": task["spec"]["nodeUID"], "wave": "rack-b", "run": run}]
    cluster.add(body)
    cluster.add(merged(task, {"spec": {"action": "Upgrade", "runID": run}}))
    change(cluster, strategy={"maxConcurrent": 5, "maxUnavailable": 9, "failureThreshold": 3})
    assert waits(cluster, "web-b-2") == f"{NOTHING}, if the operator's limits for the whole cluster allow it"


@pytest.mark.parametrize("kind", ["Stalled", "Healthy"])
def test_a_health_check_that_fails_is_told_as_the_operator_tells_it(cluster: Cluster, kind: str) -> None:
    change(cluster, healthChecks=CHECKS)
    tell(cluster, "HealthCheckFailed", FAILS, kind, status="True" if kind == "Stalled" else "False")
    assert waits(cluster) == FAILS
    assert plan(cluster) == f"none would be started now: {FAILS}"
    assert FAILS not in plan(cluster, healthChecks=[]), "it is of the check that the file leaves out"


def test_one_that_holds_may_have_to_hold_for_longer(cluster: Cluster) -> None:
    change(cluster, healthChecks=CHECKS)
    tell(cluster, "HealthChecksPassed", "1 health check holds", "Healthy")
    condition = "all health checks have held for as long as they must"
    assert waits(cluster) == f"{NOTHING}, if {condition}"
    assert plan(cluster).endswith(f"would be started at once, if {condition}")


def test_programs_are_told_so_as_well(cluster: Cluster) -> None:
    written = {**cluster.get(UPGRADES, ROLLOUT), "metadata": {"name": ROLLOUT}}
    for budget in (False, True):
        if budget:
            tell(cluster, "ClusterBudgetReached", BUDGET, "Reconciling")
        printed = cluster.run("nodeupgrade plan - -o json", stdin=json.dumps({**written, "status": {}}))
        made = json.loads(printed.partition("\n")[2].partition("exit code")[0])
        assert (NODE in made["first"], made["provided"], made["waits"]) == (not budget, "", BUDGET if budget else "")


def test_one_that_the_operator_has_not_told_of_was_not_evaluated(cluster: Cluster) -> None:
    change(cluster, healthChecks=CHECKS)
    assert waits(cluster) == "health check errors: it has not been evaluated yet."


POLICY = """
kind: DeschedulerPolicy
profiles:
  - name: default
    plugins: {deschedule: {enabled: [RemovePodsViolatingNodeTaints]}}
    pluginConfig:
      - {name: RemovePodsViolatingNodeTaints, args: {excludedTaints: [node.kubernetes.io/unschedulable]}}
"""


def descheduler(cluster: Cluster) -> None:
    """As its chart installs it, with what our remedy asks for."""
    place = {"name": "descheduler", "namespace": "kube-system"}
    cluster.add({"kind": "ConfigMap", "metadata": place, "data": {"policy.yaml": POLICY}})
    volumes: list[Json] = [{"name": "policy", "configMap": {"name": "descheduler"}}]
    pod = {**place, "name": "descheduler-1", "labels": {"app.kubernetes.io/name": "descheduler"}}
    spec = {"containers": [{"name": "descheduler"}], "volumes": volumes}
    cluster.add({"kind": "Pod", "metadata": pod, "spec": spec, "status": {"phase": "Running"}})


def may_not_read_configmaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with the role that docs/generated/cli.md gives to whoever only looks."""
    before = InMemoryKube.get

    async def get(self: InMemoryKube, resource: Resource, name: str) -> Json:
        if resource.plural == CONFIGMAPS.plural:
            raise ForbiddenError(f'configmaps "{name}" is forbidden')
        return await before(self, resource, name)

    monkeypatch.setattr(InMemoryKube, "get", get)


def warnings(cluster: Cluster, line: str = f"explain-node {NODE}") -> Collection[str]:
    return [each for each in cluster.run(f"nodeupgrade {line}").splitlines() if each.startswith("warning: ")]


def unknown(name: str, reason: str) -> list[str]:
    told = f"whether the operator refuses nodes for it ({reason}) is unknown"
    return [f"warning: cannot get ConfigMap {name} because you may not; {told}"]


def test_a_policy_that_the_user_may_not_read_is_no_finding(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    descheduler(cluster)
    before = waits(cluster), plan(cluster)
    may_not_read_configmaps(monkeypatch)

    assert (waits(cluster), plan(cluster)) == before
    assert warnings(cluster) == unknown("kube-system/descheduler", "DeschedulerEvicts")
    assert not warnings(cluster, f"status {ROLLOUT} -v"), "no node is skipped for it"
    change(cluster, nodes={**cluster.get(UPGRADES, ROLLOUT)["spec"]["nodes"], "cordon": False})
    assert not warnings(cluster), "no node is refused for it"


def require_the_guard(cluster: Cluster) -> None:
    body = cluster.get(UPGRADES, ROLLOUT)
    body["spec"]["verify"] = {"readinessGuard": "Require"}
    del body["status"]["acceptedSpecDigest"]  # as if it had been so from the beginning
    cluster.add(body)


def test_parameters_of_the_guard_that_the_user_may_not_read_are_not_missing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_the_guard(cluster)
    before = waits(cluster)
    may_not_read_configmaps(monkeypatch)

    assert waits(cluster) == before == NOTHING
    assert warnings(cluster) == unknown(f"nodeupgrade-system/{GUARD_NAME}", "ReadinessGuardUnavailable")


def test_unless_the_operator_says_so(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    require_the_guard(cluster)
    may_not_read_configmaps(monkeypatch)
    tell(cluster, "ReadinessGuardUnavailable", "it is not there", "ReadinessGuarded", status="False")
    said = cluster.run(f"nodeupgrade explain-node {NODE}")
    assert "ReadinessGuardUnavailable: node web-b-1 cannot be guarded" in " ".join(said.split())
    assert not warnings(cluster)
