"""Tests how restarts are added up over the steps of nodes with different kubelets."""

from nodeupgrade.api.json import Json
from nodeupgrade.cli.reports.restart_counts import PROBLEMS_KEPT, RestartCounts
from nodeupgrade.kubelethash import KubeletVersion

STEPS = (KubeletVersion.parse("1.31"), KubeletVersion.parse("1.34"))


def node(name: str, version: str | None) -> Json:
    return {"metadata": {"name": name}, "status": {"nodeInfo": {"kubeletVersion": version}}}


def pod(name: str, on: str, **container: object) -> Json:
    containers = [{"name": "web", "image": "i", **container}]
    status = {"containerStatuses": [{"name": "web", "state": {"running": {}}}]}
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"nodeName": on, "containers": containers},
        "status": status,
    }


def test_each_node_takes_the_steps_that_are_ahead_of_it() -> None:
    counts = RestartCounts(STEPS)
    for name, version in (("a", "v1.28.3"), ("b", "v1.31.9"), ("c", "v1.33.1"), ("d", "v1.35.0")):
        counts.add_node(node(name, version))
        counts.add_pod(pod(name, name))

    first, second = counts.steps
    assert (dict(first.started), dict(second.started)) == ({"1.28": 1, "1.31": 1}, {"1.31": 2, "1.33": 1})
    assert (first.total.restarts, second.total.restarts, counts.restarts) == (1, 0, 1)
    assert list(first.nodes) == ["a", "b"]
    assert counts.newer_nodes == {"d": "v1.35.0"}
    assert (counts.pods, counts.incomplete) == (3, False)


def test_a_node_whose_version_is_not_known_is_named() -> None:
    counts = RestartCounts(STEPS)
    for name, version in (("old", "v1.4.9"), ("new", "v1.99.0"), ("odd", "latest"), ("mute", None), ("long", "v" * 99)):
        counts.add_node(node(name, version))
        counts.add_pod(pod(name, name))

    assert sorted(counts.unknown_nodes) == ["long", "mute", "new", "odd", "old"]
    assert counts.unknown_nodes["mute"] == "it reports no kubelet version"
    assert "the oldest kubelet known here is 1.5" in counts.unknown_nodes["old"]
    assert (counts.pods, counts.astray, counts.incomplete) == (0, 0, True)


def test_pods_that_cannot_be_examined_are_counted_and_the_first_are_named() -> None:
    counts = RestartCounts(STEPS)
    counts.add_node(node("a", "v1.28.3"))
    for number in range(PROBLEMS_KEPT + 5):
        counts.add_pod(pod(f"p{number}", "a", image=5))
    counts.add_pod(pod("lost", "gone"))
    counts.add_pod(pod("pending", ""))

    assert (counts.failed, len(counts.problems), counts.astray) == (PROBLEMS_KEPT + 5, PROBLEMS_KEPT, 1)
    assert counts.problems[0].startswith("shop/p0: cannot hash container 'web'")
