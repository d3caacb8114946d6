"""A container is said to restart exactly when its two hashes differ or its pod is killed as a whole."""

import pytest
import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.cli.reports.restarts import by_era, forecast
from nodeupgrade.kubelethash import HashError, explain_pod, hash_container
from tests.golden.cli.cluster import HERE

PODS: list[Json] = yaml.load((HERE / "objects" / "pods.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)[
    "items"
]
CHANGES = [("v1.15.12", "v1.33.13"), ("v1.30.14", "v1.33.13"), ("v1.30.1", "v1.30.14"), ("v1.33.13", "v1.30.14")]


@pytest.mark.parametrize(("before", "after"), CHANGES)
def test_what_is_said_to_restart_would(before: str, after: str) -> None:
    found = forecast("it", PODS, before, after)
    expected, unknown, counted = set(), [], 0
    for pod in PODS:
        running = [s["name"] for s in pod["status"]["containerStatuses"] if "running" in s["state"]]
        counted += len(running)
        try:
            whole = bool(explain_pod(pod, before, after).whole_pod)
            for container in pod["spec"]["containers"]:
                differs = hash_container(container, before) != hash_container(container, after)
                if container["name"] in running and (whole or differs):
                    expected.add(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}/{container['name']}")
        except HashError as error:
            unknown.append(f"data/{pod['metadata']['name']}: {error}")
    assert {restart.container for restart in found.restarts} == expected
    assert (found.containers, list(found.unknown)) == (counted, unknown)
    assert all(restart.why for restart in found.restarts)


def test_sums_add_up_however_many_nodes_there_are() -> None:
    nodes = [forecast(f"node-{n}", PODS, before, after) for n, (before, after) in enumerate(CHANGES * 50)]
    sums = by_era(nodes)
    assert len(sums) == len(CHANGES)
    assert sum(each.nodes for each in sums) == len(nodes)
    for field in ("restarts", "unknown"):
        assert sum(getattr(each, field) for each in sums) == sum(len(getattr(node, field)) for node in nodes)
    assert all(sum(each.causes.values()) == each.restarts for each in sums)


def test_a_restarting_resize_policy_is_counted_as_the_preflight_counts_it() -> None:
    policies = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    container = {"name": "c", "image": "i", "resources": {"limits": {"memory": "1Gi"}}, "resizePolicy": policies}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    running = {"containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    over = {"containerStatuses": [{"name": "c", "state": {"terminated": {}}}]}
    for status, restarts in ((running, ["default/p/c"]), (over, []), (None, ["default/p/c"])):
        found = forecast("it", [{**pod, "status": status}], "v1.32.13", "v1.33.13")
        assert [each.container for each in found.restarts] == restarts
    assert forecast("it", [{**pod, "status": running}], "v1.33.1", "v1.33.13").restarts == ()
