"""Pods reduced to what decides about their containers, whatever the API leaves out."""

from datetime import timedelta
from typing import Any

import pytest

from nodeupgrade.cluster.agent_pods import AGENT_LABELS
from nodeupgrade.cluster.pods import Role, for_admission, for_watch, parse_pod
from tests.doubles.kube_fleet import pod_object

MIRROR: dict[str, Any] = {
    "metadata": {
        "namespace": "kube-system",
        "name": "etcd-node-a",
        "uid": "of the mirror",
        "annotations": {"kubernetes.io/config.mirror": "static", "kubernetes.io/config.hash": "static"},
    },
}


def test_each_container_has_its_role() -> None:
    seen = parse_pod(
        {
            "spec": {
                "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}],
                "containers": [{"name": "main", "restartPolicy": "Always"}],
                "ephemeralContainers": [{"name": "debug"}],
            }
        }
    )

    assert {c.name: c.role for c in seen.containers} == {
        "setup": Role.INIT, "mesh": Role.SIDECAR, "main": Role.REGULAR, "debug": Role.EPHEMERAL,
    }  # fmt: skip
    assert seen.container("mesh") == seen.containers[1]
    assert seen.container("other") is None


def test_a_pod_is_named_as_the_runtime_knows_it() -> None:
    assert parse_pod(MIRROR).ref.uid == "static"
    own = {"metadata": {"uid": "own", "annotations": {"kubernetes.io/config.hash": "static"}}}
    assert parse_pod(own).ref.uid == "own", "only a mirror stands for another pod"


@pytest.mark.parametrize("body", [{}, {"metadata": None, "spec": None, "status": None}, {"spec": {"containers": None}}])
def test_what_is_missing_has_its_default(body: dict[str, Any]) -> None:
    seen = parse_pod(body)

    assert (seen.ref.namespace, seen.restart_policy, seen.containers) == ("default", "Always", ())
    assert (seen.terminating, seen.finished, seen.running) == (False, False, ())


@pytest.mark.parametrize(
    ("phase", "finished"), [("Running", False), ("Pending", False), ("Succeeded", True), ("Failed", True)]
)
def test_a_pod_that_is_over(phase: str, finished: bool) -> None:
    assert parse_pod({"status": {"phase": phase}}).finished == finished


def test_a_pod_on_its_way_out() -> None:
    assert parse_pod({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}).terminating


def test_running_containers_of_every_kind_by_their_bare_id() -> None:
    def status(name: str, state: str) -> dict[str, Any]:
        return {"name": name, "containerID": f"containerd://id-{name}", "state": {state: {}}}

    seen = parse_pod(
        {
            "status": {
                "initContainerStatuses": [status("setup", "terminated"), status("mesh", "running")],
                "containerStatuses": [status("main", "running"), {"name": "new", "state": {"waiting": {}}}],
                "ephemeralContainerStatuses": [status("debug", "running")],
            }
        }
    )

    assert seen.running == (("mesh", "id-mesh"), ("main", "id-main"), ("debug", "id-debug"))


def test_admission_keeps_little_of_a_pod() -> None:
    pod = pod_object("web", "node-0")
    pod["metadata"] |= {"managedFields": [{"manager": "kubelet"}], "annotations": {"note": "x" * 1000}}
    kept = for_admission(pod)
    assert set(kept["metadata"]) <= {"namespace", "name", "uid", "labels", "deletionTimestamp", "annotations"}
    assert kept["metadata"]["annotations"] == {}
    assert set(kept["spec"]) <= {"nodeSelector", "affinity", "tolerations"}
    assert set(kept["status"]) == {"phase"}


def test_a_watch_keeps_little_of_a_large_pod() -> None:
    pod = pod_object("web", "node-0")
    many = ["ab"] * 10_000
    pod["metadata"] |= {"managedFields": many, "annotations": {"note": "x" * 1000}, "labels": dict.fromkeys(many, "")}
    probe = {"exec": {"command": many}, "periodSeconds": 3, "successThreshold": 2}
    pod["spec"] |= {
        "hostAliases": [{"hostnames": many}],
        "containers": [{"name": "main", "args": many, "env": many, "readinessProbe": probe}],
    }
    kept = for_watch(pod)
    assert len(str(kept)) < 500
    assert parse_pod(kept).exposure == parse_pod(pod).exposure > timedelta(seconds=9)


def test_of_more_containers_than_a_node_runs_none_is_watched() -> None:
    """Whoever may create pods could fill the memory of an agent with them."""
    pod = dict(pod_object("web", "node-a"))
    vast = [{"name": f"c{number}", "image": "nginx"} for number in range(10_000)]
    kept = for_watch({**pod, "spec": {"initContainers": vast, "containers": [{"name": "main"}]}})
    assert len(str(kept)) < 1000
    assert parse_pod(kept).ref == parse_pod(pod).ref
    assert parse_pod(kept).containers == ()


def test_whoever_watches_pods_knows_an_agents_and_where_to_go_on() -> None:
    labels = {**AGENT_LABELS, "another": "x"}
    kept = for_watch({"metadata": {"uid": "u", "resourceVersion": "7", "labels": labels}})
    assert (kept["metadata"]["resourceVersion"], parse_pod(kept).labels) == ("7", AGENT_LABELS)
