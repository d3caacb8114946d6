"""What people see of the commands that talk to a cluster. To accept new output: UPDATE_GOLDEN=1 pytest tests/golden."""

import asyncio
import copy
import json
from datetime import timedelta

import pytest

from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.node_annotations import HOLD_ANNOTATION, SKIP_ANNOTATION
from nodeupgrade.api.values import Verdict
from nodeupgrade.cli.main import main
from nodeupgrade.cluster.kube_api import (
    NODES,
    TASKS,
    UPGRADES,
    ForbiddenError,
    NoClusterError,
    Resource,
    UnavailableError,
)
from tests.doubles.kube import merged
from tests.golden.cli.cluster import FILES, WORLD, Cluster, check
from tests.golden.cli.worlds import of_world, told_by_the_operator

ROLLOUT = "kubelet-1-33-13"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(*WORLD)


LOOKING = {
    "status-all.txt": ["status"],
    "status-one.txt": [
        f"status {ROLLOUT}",
        f"status {ROLLOUT} -v",
        f"status {ROLLOUT}-gpu",
        "status kubelet-1-30-14",
        "status kubelet-1-34-plan",
        "status kubelet-new",
        "status kubelet-1-33",
    ],
    "status-documents.txt": [f"status {ROLLOUT} -o json", "status kubelet-1-30-14 -o yaml"],
    "failures.txt": [f"failures {ROLLOUT}", f"failures {ROLLOUT} -o json", "failures kubelet-1-30-14"],
    "report.txt": [
        f"report {ROLLOUT} -o markdown",
        "report kubelet-1-30-14 -o markdown",
        "report kubelet-1-34-plan -o markdown",
        "report kubelet-new -o markdown",
        "report kubelet-1-33",
        f"report {ROLLOUT} -o pdf",
    ],
    "evidence.txt": [
        "evidence web-c-1",
        "evidence web-a-1",
        "evidence web-a-2",
        "evidence web-b-1",
        "evidence web-c-1 -o json",
        "evidence web-x-1",
    ],
    "explain-node.txt": [
        "explain-node web-b-1",
        "explain-node web-b-3",
        "explain-node web-a-1",
        "explain-node web-a-2",
        "explain-node web-a-3",
        "explain-node web-a-5",
        "explain-node gpu-1",
        "explain-node cp-1",
        "explain-node db-6 --upgrade kubelet-1-34-plan",
        "explain-node web-b-1 -o json",
        "explain-node web-z-1",
    ],
    "explain.txt": [
        "explain --to 1.31 --to 1.34",
        "explain --to 1.31 --fail-on-restart -o csv",
        "explain --to 1.31 -o markdown",
        "explain --to 1.34 -o json",
        "explain --to 1.28",
        "explain --to 1.34 --to 1.31",
        "explain --to 1.31 --from 1.30",
        "explain --to 1.31 -o yaml",
        "explain --to 1.31 --pods mixed.yaml",
        "explain --from 1.30 --to 1.31 --pods mixed.yaml",
        "explain --from 1.30 --to 1.31 --pods mixed.yaml -o table --fail-on-restart",
        "explain --to 1.31 --pods with-nodes.yaml",
        "explain --to 1.31 --pods with-nodes.yaml -o text",
        "explain --from 1.28 --to 1.31 --to 1.34 --pods mixed.yaml",
        "explain --from 1.28 --to 1.31 --to 1.34 --pods mixed.yaml -o json",
        "explain --from 1.30 --to 1.31 --pods fine.yaml",
    ],
    "plan.txt": [
        "plan databases.yaml",
        "plan databases.yaml --nodes",
        "plan fine.yaml",
        "plan wrong.yaml",
        "plan broken.yaml",
    ],
    "added-flags.txt": ["plan look-first.yaml"],
    "previews.txt": ["plan look-first.yaml", "evidence cache-1", "explain-node cache-2", "failures kubelet-1-34-plan"],
    "hashes.txt": [
        "hashes --fleet",
        "hashes web-c-1 web-b-1 -o json",
        "hashes web-z-1",
        "hashes",
        "hashes web-c-1 --fleet",
    ],
    "held.txt": ["plan databases.yaml", "explain-node web-b-1"],
    "hooks.txt": ["explain-node web-b-1"],
    "lint.txt": [
        "lint fine.yaml",
        "lint wrong.yaml",
        "lint fine.yaml edited.yaml --against fine.yaml",
        "lint edited.yaml --against live",
        "lint fine.yaml --against live",
        "lint edited.yaml --against fine.yaml -o json",
        "lint broken.yaml",
        "lint absent.yaml",
        "lint misspelt.yaml fine.yaml",
        "lint fine.yaml --against absent.yaml",
        "lint -",
    ],
    "help.txt": ["--help", *(f"{name} --help" for name in main.commands)],
}
GIVEN = {"lint -": "kind: ConfigMap\nmetadata: {name: x}\n"}
"""What commands get on standard input."""
HOOKS = [
    {"phase": "Before", "template": "set-noout", "timeoutSeconds": 60, "result": "Succeeded"},
    {
        "phase": "After",
        "template": "unset-noout",
        "timeoutSeconds": 60,
        "result": "Failed",
        "message": "Job unset-noout-after-web-b-1-0123456789: Job has reached the specified backoff limit",
    },
    {"phase": "After", "template": "unsilence", "timeoutSeconds": 60},
]
CHANGED: dict[str, list[tuple[Resource, str, Json]]] = {
    "held.txt": [
        (NODES, "db-1", {"metadata": {"annotations": {HOLD_ANNOTATION: "INC-7, until Monday"}}}),
        (NODES, "db-3", {"metadata": {"annotations": {SKIP_ANNOTATION: "true"}}}),
        (NODES, "web-b-1", {"metadata": {"annotations": {HOLD_ANNOTATION: "true"}}}),
    ],
    "hooks.txt": [(TASKS, "web-b-1", {"spec": {"hooks": HOOKS}})],
    "added-flags.txt": [(TASKS, "cache-1", {"status": {"preview": {"addedFlags": ["--container-runtime=remote"]}}})],
}
"""What is different in the cluster that is looked at."""


@pytest.mark.parametrize("golden", LOOKING)
def test_looking(cluster: Cluster, golden: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written."""
    monkeypatch.chdir(FILES)
    for resource, name, change in CHANGED.get(golden, ()):
        cluster.add(merged(cluster.get(resource, name), change))
    before = copy.deepcopy(cluster.kube._objects)
    check(golden, (cluster.run(f"nodeupgrade {line}", stdin=GIVEN.get(line)) for line in LOOKING[golden]))
    assert cluster.kube._objects == before


STEERING = {
    "pause.txt": (
        ["pause ROLLOUT --dry-run", "pause ROLLOUT", "pause ROLLOUT", "pause kubelet-1-30-14", "pause nobody"],
        ["metadata", "annotations"],
    ),
    "resume.txt": (
        ["resume ROLLOUT-gpu --dry-run", "resume ROLLOUT-gpu", "resume ROLLOUT-gpu", "resume ROLLOUT"],
        ["metadata", "annotations"],
    ),
    "approve.txt": (
        [
            "approve ROLLOUT rack-b --dry-run",
            "approve ROLLOUT rack-b",
            "approve ROLLOUT rack-b",
            "approve ROLLOUT canary",
            "approve ROLLOUT rack-c",
        ],
        ["metadata", "managedFields"],
    ),
    "retry.txt": (
        [
            "retry ROLLOUT --dry-run",
            "retry ROLLOUT",
            "retry ROLLOUT",
            "retry ROLLOUT --wait --timeout 3s",
            "retry kubelet-1-30-14",
        ],
        ["metadata", "annotations"],
    ),
    "abort.txt": (
        ["abort ROLLOUT", "abort ROLLOUT --dry-run", "abort ROLLOUT --yes", "abort ROLLOUT --yes", "retry ROLLOUT"],
        ["spec", "action"],
    ),
}


@pytest.mark.parametrize("golden", STEERING)
def test_steering(cluster: Cluster, golden: str) -> None:
    """What is said, and what stands in the object after each command."""
    lines, path = STEERING[golden]

    def told(line: str) -> str:
        said = cluster.run(f"nodeupgrade {line.replace('ROLLOUT', ROLLOUT)}")
        name = f"{ROLLOUT}-gpu" if "-gpu" in line else ROLLOUT
        value = cluster.get(UPGRADES, name)
        for key in path:
            value = value.get(key, {})
        return f"{said.rstrip()}\n# {'.'.join(path)}: {json.dumps(value)}\n\n"

    check(golden, map(told, lines))


def test_steering_is_decided_again_when_somebody_else_wrote_in_between(cluster: Cluster) -> None:
    wrote: list[str] = []

    def write_first(_verb: str, name: str) -> None:
        if len(wrote) < 3:
            wrote.append(name)
            other = cluster.kube._stored(UPGRADES, name)
            cluster.kube._store(("nodeupgrades", None, name), other, "status")

    cluster.kube.before_write = write_first
    assert "exit code" not in cluster.run(f"nodeupgrade approve {ROLLOUT} rack-b")
    assert len(wrote) == 3
    assert cluster.get(UPGRADES, ROLLOUT)["metadata"]["annotations"]["nodeupgrade.dev/approve"] == "rack-a,rack-b"


def judge(cluster: Cluster, outcome: Verdict, *nodes: str) -> None:
    """Let the runs of nodes be over, and their slots be given back."""
    moment, upgraded = timestamp(cluster.now - timedelta(seconds=10)), outcome is Verdict.SUCCEEDED
    for name in nodes:
        task, node, run = cluster.get(TASKS, name), cluster.get(NODES, name), f"run-{name}"
        message = f"node {name} runs v1.33.13; 40 containers counted, each the instance it was before."
        told = message if upgraded else FELL_BACK
        reason = "Succeeded" if upgraded else "KubeletDidNotStart"
        verdict = {"runID": run, "outcome": outcome.value, "reason": reason, "message": told, "decidedAt": moment}
        task["spec"] |= {"action": "Release", "runID": run, "verdict": verdict}
        containers = {"baseline": 40, "rewritten": 40 if upgraded else 0, "unchanged": 40}
        task["status"] = {"runID": run, "phase": outcome.value, "reason": reason, "message": told}
        task["status"]["containers"] = containers
        cluster.add(task)
        node["spec"], node["metadata"]["annotations"] = {}, {}
        node["status"]["nodeInfo"]["kubeletVersion"] = "v1.33.13" if upgraded else "v1.30.14"
        cluster.add(node)
    body = cluster.get(UPGRADES, ROLLOUT)
    body["status"]["inFlight"] = [slot for slot in body["status"]["inFlight"] if slot["node"] not in nodes]
    cluster.add(body)
    cluster.add(asyncio.run(told_by_the_operator(cluster.kube, ROLLOUT, cluster.now)))


FELL_BACK = "rolled back to v1.30.14; nothing restarted. Cause: the kubelet did not become healthy within 28 s"


def test_watching_without_a_terminal(cluster: Cluster) -> None:
    """Every state that is watched is one that the operator tells of a possible cluster."""

    def after(*outcomes: tuple[Verdict, tuple[str, ...]]) -> Json:
        future = Cluster(*WORLD)
        for outcome, nodes in outcomes:
            judge(future, outcome, *nodes)
        assert list(of_world(future.kube, future.now)) == []
        return future.get(UPGRADES, ROLLOUT)

    def watch(*states: Json, options: str = "") -> str:
        cluster.add(before)
        cluster.at_sleep = list(states)
        return cluster.run(f"nodeupgrade status {ROLLOUT} --watch{options}")

    first, second, fallen = ("web-a-3",), ("web-a-4",), ("web-a-1", "web-a-2")
    others = ("web-b-1", "web-b-2", "web-b-3", "web-d-1")
    before = cluster.get(UPGRADES, ROLLOUT)
    going_on = after((Verdict.SUCCEEDED, first))
    failed = after((Verdict.SUCCEEDED, first + second + others))
    retried = after((Verdict.SUCCEEDED, first + second + fallen))
    well = after((Verdict.SUCCEEDED, first + second + fallen + others))
    stalled = after((Verdict.ROLLED_BACK, first + second))
    transcripts = [
        watch(before, going_on, retried, well, options=" --interval 10m"),
        watch(failed),
        watch(options=" --timeout 10s --interval 5s"),
        watch(stalled, options=" --stop-when-stalled"),
    ]
    cluster.add(before)
    cluster.at_sleep = [going_on, well]
    transcripts.append(cluster.run("nodeupgrade status --watch --timeout 2m --interval 1m"))
    check("watch.txt", transcripts)


def test_what_a_cluster_that_does_not_play_along_gets(cluster: Cluster) -> None:
    def failing(failure: Exception) -> str:
        cluster.failure = failure
        said = cluster.run(f"nodeupgrade status {ROLLOUT}")
        cluster.failure = None
        return said

    nobody = 'nodeupgrades.nodeupgrade.dev is forbidden: User "nobody" cannot list resource "nodeupgrades"'
    check(
        "errors.txt",
        [
            failing(NoClusterError("cannot use the default kubeconfig because no configuration was found")),
            failing(UnavailableError("cannot GET /version because the API server does not answer (TimeoutError())")),
            failing(ForbiddenError(f"cannot GET /apis because the API server answers 403: {nobody}")),
            cluster.run("nodeupgrade status --watch -o json"),
            cluster.run("nodeupgrade status --verbose"),
            cluster.run(f"nodeupgrade status {ROLLOUT} --timeout 5m"),
            cluster.run("nodeupgrade status --interval 5s"),
            cluster.run(f"nodeupgrade status {ROLLOUT} --watch --timeout soon"),
        ],
    )


def test_an_empty_cluster_says_so() -> None:
    empty = Cluster()
    check("empty.txt", map(empty.run, ("nodeupgrade status", "nodeupgrade pause x", "nodeupgrade evidence node-1")))


def test_linting_a_file_reaches_no_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    cluster.failure = AssertionError("it was reached")
    assert "exit code" not in cluster.run("nodeupgrade lint fine.yaml")


def change(cluster: Cluster, **spec: object) -> None:
    body = cluster.get(UPGRADES, ROLLOUT)
    body["spec"] |= spec
    cluster.add(body)


def test_what_a_node_waits_for_is_what_the_planner_says(cluster: Cluster) -> None:
    told: list[str] = []

    def ask(because: str, node: str, options: str = "") -> None:
        said = cluster.run(f"nodeupgrade explain-node {node}{options}")
        seat = said.partition("State")[2].partition("Its task")[0]
        told.append(f"{because}: {' '.join((seat or said).split())}\n")

    ask("a younger rollout", "web-b-1", " --upgrade kubelet-new")
    judge(cluster, Verdict.SUCCEEDED, "web-a-3")
    ask("a wave of which one node is in flight", "web-b-1")
    judge(cluster, Verdict.SUCCEEDED, "web-a-4")
    ask("a wave whose turn it is, which needs approval", "web-b-1")
    cluster.run(f"nodeupgrade approve {ROLLOUT} rack-b")
    ask("the same, approved", "web-b-1")
    ask("the third node of it, with two slots", "web-b-3")
    ask("the wave after it", "web-d-1")
    cordoned = cluster.get(NODES, "web-b-3")
    cluster.add(merged(cordoned, {"spec": {"unschedulable": True}}))
    change(cluster, strategy={"maxConcurrent": 1, "maxUnavailable": 1, "failureThreshold": 3})
    ask("one node may be unavailable and one is cordoned", "web-b-1")
    ask("that one", "web-b-3")
    cluster.add(cordoned)
    change(cluster, strategy={"maxConcurrent": 2, "failureThreshold": 1})
    ask("one node may fail and one did", "web-b-1")
    change(cluster, strategy={"failureThreshold": 3})
    cluster.now += timedelta(hours=5)
    ask("after the window", "web-b-1")
    cluster.run(f"nodeupgrade pause {ROLLOUT}")
    ask("paused", "web-b-1")
    change(cluster, strategy={"failureThreshold": 0})
    ask("a spec that is not valid", "web-b-1")
    check("waits.txt", told)


def test_a_plan_does_with_accepted_checks_what_the_operator_does(cluster: Cluster) -> None:
    written = (FILES / "databases.yaml").read_text(encoding="utf-8")
    accepting = f"{written}  preflight: {{accept: [placements_are_met]}}\n"

    plan = json.loads(
        cluster.run("nodeupgrade plan - -o json", stdin=accepting).partition("\n")[2].partition("exit")[0]
    )

    assert {node["node"]: node["place"] for node in plan["nodes"]}["db-8"] == "Pending"
    [accepted] = [each for each in plan["todo"] if each["accepted"]]
    assert (accepted["severity"], accepted["check"], accepted["nodes"]) == ("warn", "placements_are_met", ["db-8"])
    assert accepted["owners"] == [{"name": "StatefulSet data/ledger", "pods": 1}]


def test_plans_for_programs(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    printed = cluster.run("nodeupgrade plan databases.yaml -o json").partition("\n")[2].partition("exit code")[0]
    plan = json.loads(printed)
    places = {node["node"]: node["place"] for node in plan["nodes"]}
    assert places["db-8"] == "Refused"
    assert sum(wave["total"] for wave in plan["waves"]) == len(places) == 8
    restarts = sum(len(node["forecast"]["restarts"]) for node in plan["nodes"] if "forecast" in node)
    assert restarts == sum(era["restarts"] for era in plan["eras"])


def test_the_operator_s_own_node_comes_last_in_its_wave(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    labels = {"app.kubernetes.io/name": "nodeupgrade-operator"}

    def order() -> list[str]:
        printed = cluster.run("nodeupgrade plan databases.yaml -o json").partition("\n")[2].partition("exit code")[0]
        return [node["node"] for node in json.loads(printed)["nodes"] if node["wave"] == "remainder"]

    def operator(number: int, node: str, **metadata: str) -> Json:
        named = {"name": f"operator-{number}", "namespace": "nodeupgrade-system", "labels": labels, **metadata}
        return {"kind": "Pod", "metadata": named, "spec": {"nodeName": node}, "status": {"phase": "Running"}}

    by_name = order()
    cluster.add(operator(1, by_name[-1], deletionTimestamp="2026-03-02T10:00:00Z"))
    cluster.add(operator(2, by_name[0]))
    assert order() == [*by_name[1:], by_name[0]]
    cluster.add(operator(3, by_name[1]))
    assert order() == by_name, "of two operators nobody knows which one leads"


def test_a_task_that_cannot_be_read_costs_its_own_node_only(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the operator: what one node's task says in a newer version's words hides nothing about all the others."""
    monkeypatch.chdir(FILES)
    before = cluster.run("nodeupgrade plan databases.yaml --nodes"), cluster.run("nodeupgrade explain-node web-b-1")
    body = cluster.get(TASKS, "web-a-4")
    newer = {**body["spec"], "nodeName": "db-1", "action": "OfANewerVersion"}
    cluster.add({**body, "metadata": {"name": "db-1", "generation": 1}, "spec": newer, "status": {}})

    planned = cluster.run("nodeupgrade plan databases.yaml --nodes")

    assert "ObjectUnreadable: the task of node db-1 cannot be read" in " ".join(planned.split())
    assert "exit code 2" not in planned
    assert len(planned.splitlines()) > 0.8 * len(before[0].splitlines())
    assert cluster.run("nodeupgrade explain-node web-b-1") == before[1]


def test_a_rollout_that_cannot_be_read_leaves_the_others_to_be_planned(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(FILES)
    before = cluster.run("nodeupgrade plan databases.yaml")
    body = cluster.get(UPGRADES, "kubelet-1-30-14")
    cluster.add({**body, "status": {"phase": ["of a newer version"]}})

    assert cluster.run("nodeupgrade plan databases.yaml") == before


def test_skipped_nodes_are_named_but_not_all_of_many(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    one = cluster.get(NODES, "web-a-5")
    for number in range(10, 17):
        name = f"web-a-{number}"
        cluster.add(merged(one, {"metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}}}))
    named = "(web-a-10, web-a-11, web-a-12, web-a-13, web-a-14 and 3 more)"
    assert named in cluster.run(f"nodeupgrade status {ROLLOUT} -v", width="200")
    assert "web-a-10" not in cluster.run(f"nodeupgrade status {ROLLOUT}", width="200"), "it reads no nodes"

    async def forbidden(*_: object, **__: object) -> None:
        raise ForbiddenError("nodes are forbidden")

    monkeypatch.setattr("nodeupgrade.cli.commands.status.read_fleet", forbidden)
    assert "Skipped       1 AlreadyAtTarget\n" in cluster.run(f"nodeupgrade status {ROLLOUT} -v", width="200")
