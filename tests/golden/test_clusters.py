"""What people see of commands over several clusters. To accept new output: UPDATE_GOLDEN=1 pytest tests/golden."""

import json
from datetime import timedelta

import pytest

from nodeupgrade.cluster.kube_api import UPGRADES, UnavailableError
from tests.doubles.kube import merged
from tests.golden.cli.cluster import WORLD, Cluster, check, of_contexts, run

ROLLOUT = "kubelet-1-33-13"
PAUSED = "nodeupgrade.dev/pause"


@pytest.fixture
def clusters() -> dict[str, Cluster]:
    """A small cluster, one that has everything, one that is behind, and one that does not answer."""
    small, behind, dead = Cluster(), Cluster(), Cluster()
    everything = Cluster(*WORLD)
    gpu = everything.get(UPGRADES, f"{ROLLOUT}-gpu")
    small.add(everything.get(UPGRADES, "kubelet-1-30-14"))
    small.add(merged(gpu, {"metadata": {"name": ROLLOUT, "uid": "uid-small"}}))
    behind.add(everything.get(UPGRADES, "kubelet-1-30-14"))
    dead.failure = UnavailableError("cannot GET /apis because the API server does not answer (api.ams:6443: timed out)")
    return {"prod-fra": everything, "prod-lon": small, "prod-ams": dead, "staging": behind}


def test_looking(clusters: dict[str, Cluster]) -> None:
    lines = [
        "status --context 'prod-*' --context staging",
        f"status {ROLLOUT} --context 'prod-*' --context staging",
        "status --context staging --context prod-lon",
        "status --context 'stag*'",
        "status --context 'prod-*' --context prod-par",
        "status --context 'dev-*'",
        "status --context 'prod-*' --watch",
        "status kubelet-1-30-14 --context 'stag*' -o yaml",
    ]
    check("clusters-status.txt", (run(f"nodeupgrade {line}", of_contexts(clusters)) for line in lines))
    printed = run("nodeupgrade status --context '*' -o json", of_contexts(clusters))
    document = json.loads(printed.partition("\n")[2].partition("exit code 3")[0])
    assert [(each["context"], bool(each["error"]), len(each["rollouts"])) for each in document] == [
        ("prod-fra", False, 5), ("prod-lon", False, 2), ("prod-ams", True, 0), ("staging", False, 1)
    ]  # fmt: skip
    (running,) = (each for each in document[0]["rollouts"] if each["name"] == ROLLOUT)
    assert running["inFlight"] == ["web-a-3", "web-a-4"]


def test_one_context_by_its_name_is_one_cluster(clusters: dict[str, Cluster]) -> None:
    clusters = {**clusters, "odd[*]": clusters["staging"]}
    alone = clusters["staging"].run("nodeupgrade status").partition("\n")[2]
    for context in ("staging", "odd[*]"):
        assert run(f"nodeupgrade status --context '{context}'", of_contexts(clusters)).partition("\n")[2] == alone


def test_steering(clusters: dict[str, Cluster]) -> None:
    """A cluster that does not answer keeps the brake from no other."""
    lines = [
        f"pause {ROLLOUT} --context 'prod-*' --context staging --dry-run",
        f"pause {ROLLOUT} --context 'prod-*' --context prod-par",
        f"pause {ROLLOUT} --context 'prod-*' --context staging",
        f"pause {ROLLOUT} --context prod-fra --context prod-lon --wait --timeout 3s",
        f"resume {ROLLOUT} --context prod-fra --context prod-lon",
        f"approve {ROLLOUT} rack-b --context prod-fra --context prod-lon",
    ]

    def told(line: str) -> str:
        said = run(f"nodeupgrade {line}", of_contexts(clusters))
        found = {
            name: PAUSED in clusters[name].get(UPGRADES, ROLLOUT)["metadata"].get("annotations", {})
            for name in ("prod-fra", "prod-lon")
        }
        return f"{said.rstrip()}\n# paused by annotation: {json.dumps(found)}\n\n"

    check("clusters-steering.txt", map(told, lines))


def test_a_failure_stays_in_sight_until_a_younger_rollout_succeeds(clusters: dict[str, Cluster]) -> None:
    succeeded = clusters["staging"].get(UPGRADES, "kubelet-1-30-14")
    world = of_contexts(clusters)
    created = clusters["staging"].now

    def also(name: str, *, ago: int, succeeds: bool) -> str:
        facts = {"status": str(succeeds), "reason": "It", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        conditions = [{"type": kind, **facts} for kind in ("Succeeded", "Ready")]
        moment = (created - timedelta(minutes=ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {**succeeded["status"], "phase": name, "conditions": conditions}
        metadata = {**succeeded["metadata"], "name": name.lower(), "uid": f"uid-{name}", "creationTimestamp": moment}
        clusters["staging"].add({**succeeded, "metadata": metadata, "status": status})
        return run("nodeupgrade status --context 'stag*'", world)

    failed = also("Failed", ago=2, succeeds=False)
    assert ("staging  failed" in failed, "exit code 1" in failed) == (True, True)
    done = also("Succeeded", ago=1, succeeds=True)
    assert ("staging  failed" in done, "exit code" in done) == (False, False)
