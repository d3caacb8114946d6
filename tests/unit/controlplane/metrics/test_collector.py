"""Tests for the metrics that the operator serves."""

import re
import threading
import urllib.request
from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import generate_latest

from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.run_id import began_at
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import HashCensus, TaskStatus
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.controlplane.metrics.collector import Metrics, State, serve_metrics
from nodeupgrade.controlplane.metrics.definitions import METRICS, NAMED_NODES, NAMED_RESTARTS, NAMED_UPGRADES, OTHERS
from nodeupgrade.fleet.actions import Judge
from nodeupgrade.fleet.controllers.result import Result
from tests.builders.observed_rollout import NAME, Observed
from tests.scenario.agent.given import upgrade_task


@pytest.fixture
async def observed() -> Observed:
    observed = Observed()
    await observed.run()
    return observed


async def test_runs_are_counted_once_and_nodes_as_they_stand(observed: Observed) -> None:
    assert observed.value("containers_rewritten_total", upgrade=NAME) == 3
    assert "nodeupgrade_containers_restarted_total{" not in generate_latest(observed.metrics.registry).decode()
    assert observed.value("readiness_flaps_total", upgrade=NAME) == 1
    assert observed.value("rollbacks_total", upgrade=NAME, reason="KubeletDidNotStart") == 1
    assert observed.value("nodes", upgrade=NAME, wave="canary", phase="Succeeded") == 1
    groups = re.findall(r"nodeupgrade_nodes\{.*\} (\S+)", generate_latest(observed.metrics.registry).decode())
    assert sum(map(float, groups)) == 3
    assert observed.value("inflight", upgrade=NAME) == 0
    numbers = {name: observed.value(f"rollout_nodes{name}", upgrade=NAME) for name in ("", "_completed", "_failed")}
    assert numbers == {"": 3, "_completed": 2, "_failed": 1}
    for _ in range(5):
        await observed.step()
    assert observed.value("containers_rewritten_total", upgrade=NAME) == 3


async def test_a_restart_is_counted_for_its_rollout_and_its_node(observed: Observed) -> None:
    task = next(task for task in observed.tasks if task.verdict is not None)
    assert task.verdict is not None
    judged = Judge(task=task, verdict=replace(task.verdict, restarted=2), reason=task.verdict.reason, message="")

    for node in ("node-2", *(f"other-{number}" for number in range(NAMED_RESTARTS))):
        done = replace(Result(), applied=(replace(judged, task=replace(task, name=NodeName(node))),))
        observed.metrics.node_reconciled(done, 0.1)

    assert observed.value("containers_restarted_total", upgrade=NAME, node="node-2") == 2
    assert observed.value("containers_restarted_total", upgrade=NAME, node=OTHERS) == 2
    assert "_created" not in generate_latest(observed.metrics.registry).decode()


async def test_only_so_many_rollouts_are_named(observed: Observed) -> None:
    done = await observed.step()
    for number in range(NAMED_UPGRADES):
        observed.metrics.rollout_reconciled(f"more-{number}", done, 0.1)
    assert observed.value("containers_rewritten_total", upgrade=f"more-{NAMED_UPGRADES - 2}") == 0
    assert observed.value("containers_rewritten_total", upgrade=f"more-{NAMED_UPGRADES - 1}") is None
    assert observed.value("containers_rewritten_total", upgrade=OTHERS) == 0


async def test_an_operator_that_starts_anew_counts_nothing_again(observed: Observed) -> None:
    observed.metrics = observed.new_operator()
    await observed.step()
    assert observed.value("containers_rewritten_total", upgrade=NAME) == 0
    assert observed.value("kubelet_down_seconds_count", upgrade=NAME) == 0
    assert observed.value("nodes", upgrade=NAME, wave="canary", phase="Succeeded") == 1, "what is, is told all the same"


async def test_time_without_a_kubelet_is_measured_where_there_was_any(observed: Observed) -> None:
    reported = [task.reported.kubelet.down_seconds for task in observed.tasks]
    assert observed.value("kubelet_down_seconds_count", upgrade=NAME) == sum(
        seconds is not None for seconds in reported
    )


async def test_whatever_is_known_of_a_deleted_upgrade_vanishes(observed: Observed) -> None:
    assert f'upgrade="{NAME}"' in generate_latest(observed.metrics.registry).decode()
    await observed.scene.kube.delete(UPGRADES, NAME)
    for _ in range(5):
        await observed.step()
    assert observed.tasks, "although its tasks are still there"
    assert NAME not in generate_latest(observed.metrics.registry).decode()


async def test_a_pause_is_seen() -> None:
    observed = Observed()
    await observed.scene.apply(NAME, action="Pause")
    for _ in range(3):
        await observed.step()
    assert observed.value("paused", upgrade=NAME) == 1
    await observed.scene.kube.merge(UPGRADES, NAME, {"spec": {"action": "Run"}})
    for _ in range(3):
        await observed.step()
    assert observed.value("paused", upgrade=NAME) == 0


async def test_phase_and_conditions_are_told_as_they_are(observed: Observed) -> None:
    status = (await observed.scene.kube.get(UPGRADES, NAME))["status"]
    assert observed.value("phase", upgrade=NAME, phase=status["phase"]) == 1
    for each in status["conditions"]:
        labels = {label: each[label] for label in ("type", "status", "reason")}
        assert observed.value("condition", upgrade=NAME, **labels) == 1
    told = generate_latest(observed.metrics.registry).decode()
    assert told.count("nodeupgrade_phase{") == 1
    assert told.count("nodeupgrade_condition{") == len(status["conditions"])


async def test_a_node_in_flight_is_told_by_name_with_how_long_it_is() -> None:
    observed = Observed()
    for n in range(2):
        await observed.scene.fleet.add_node(f"node-{n}")
    await observed.scene.apply(NAME, timeouts={"node": "20m"})
    while (begun := observed.value("node_inflight_seconds", upgrade=NAME, node="node-0")) is None:
        await observed.step()
    observed.scene.now += timedelta(minutes=7)
    assert observed.value("node_inflight_seconds", upgrade=NAME, node="node-0") == begun + 7 * 60
    assert observed.value("node_timeout_seconds", upgrade=NAME) == 20 * 60
    assert observed.value("node_inflight_seconds", upgrade=NAME, node="node-1") is None, "it waits for its turn"


async def test_of_many_nodes_in_flight_those_are_named_that_have_been_so_longest() -> None:
    observed, many = Observed(), NAMED_NODES + 5
    for n in range(many):
        await observed.scene.fleet.add_node(f"node-{n:02}")
    await observed.scene.apply(NAME, strategy={"maxConcurrent": many})
    while observed.value("inflight", upgrade=NAME) != many or any(
        task.spec.action is TaskAction.WAIT for task in observed.tasks
    ):
        await observed.step()
    began = sorted(began_at(task.spec.run_id) or observed.scene.now for task in observed.tasks)
    told = re.findall(
        r"nodeupgrade_node_inflight_seconds\{.*\} (\S+)", generate_latest(observed.metrics.registry).decode()
    )
    assert [float(each) for each in told] == [
        pytest.approx((observed.scene.now - each).total_seconds()) for each in began[:NAMED_NODES]
    ]


async def test_a_replica_that_no_longer_leads_tells_nothing_of_rollouts(observed: Observed) -> None:
    assert NAME in generate_latest(observed.metrics.registry).decode()
    observed.leads = False
    gauges = ("nodes", "inflight", "rollout_nodes", "paused", "node_timeout_seconds")
    assert [observed.value(gauge, upgrade=NAME) for gauge in gauges] == [None] * len(gauges)
    assert 'phase="' not in generate_latest(observed.metrics.registry).decode()


def test_everything_is_served_over_http_also_while_the_event_loop_hangs(observed: Observed) -> None:
    observed.metrics.answered("GET", "200")
    observed.metrics.lagged(0.7)
    observed.metrics.failed(1.0)
    with serve_metrics(observed.metrics, "127.0.0.1", 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=600) as answer:
            told = answer.read().decode()
        threads = threading.active_count()
    assert threading.active_count() < threads
    for line in (
        'nodeupgrade_api_requests_total{code="200",verb="GET"} 1.0',
        'nodeupgrade_event_loop_lag_seconds_bucket{le="0.5"} 0.0',
        'nodeupgrade_informer_last_event_age_seconds{kind="Node"} 2.5',
        'nodeupgrade_informer_relists_total{kind="Node",reason="expired"} 3.0',
        'nodeupgrade_informer_synced{kind="Node"} 1.0',
        "nodeupgrade_queue_depth 4.0",
        'nodeupgrade_reconcile_total{result="error"} 1.0',
    ):
        assert line in told.splitlines()
    assert not re.search(r"node-\d", told), "only nodes in flight are named, and none is"


def test_what_is_served_is_in_the_catalogue(observed: Observed) -> None:
    families = {family.name: family for family in observed.metrics.registry.collect()}
    ours = {name for name in families if name.startswith("nodeupgrade_")}
    assert ours == {spec.name for spec in METRICS}
    for spec in METRICS:
        family = families[spec.name]
        assert (family.type, family.documentation) == (spec.kind, spec.meaning)
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        assert labels == set(spec.labels) or not family.samples, spec.name


def test_containers_are_counted_by_the_kubelet_that_wrote_their_hash() -> None:
    tasks = [
        _counted("node-1", {"1.12": 2, "1.17": 30}),
        _counted("node-2", {"1.17": 5, "unknown": 1, "1.17\n": 1, "x" * 99: 1}),
        _counted("node-3"),
    ]
    metrics = Metrics(lambda: State(tasks=tasks, leads=True))

    found = {
        kubelet: metrics.registry.get_sample_value("nodeupgrade_containers_by_hash", {"kubelet": kubelet})
        for kubelet in ("1.12", "1.17", "1.33", "unknown")
    }
    assert found == {"1.12": 2, "1.17": 35, "1.33": None, "unknown": 3}


def _counted(node: str, kubelets: dict[str, int] | None = None) -> Task:
    """The task of a node whose last run is an earlier one."""
    task = upgrade_task(NodeName(node), RunId("run-2"), "v1.17.17", "v1.33.13", source="/opt/kubelet")
    hashes = None if kubelets is None else HashCensus(kubelets=kubelets)
    return replace(task, status=TaskStatus(run_id="run-1", hashes=hashes))
