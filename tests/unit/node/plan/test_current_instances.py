"""What is known of a container whose status is that of an instance before it."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.values import ContainerId
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.node.checks.probes import probes_let_containers_live
from nodeupgrade.node.checks.traffic import Clients, Traffic
from nodeupgrade.node.plan.current_instances import as_they_run
from nodeupgrade.node.runtimes.inventory import ContainerState
from tests.builders.sound import NEW, OLD, SPEC, WEB, instance, inventory, pod

RUNS = replace(instance("abc"), attempt=3)
PROBED = {**SPEC, "startupProbe": {"periodSeconds": 1, "failureThreshold": 10}}
ENDED = {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}
READY = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]


def shown(state: dict[str, Any], container_id: str = "before", *, role: str = "containers", **more: Any) -> Pod:
    """Return the pod with a container as the API server shows it."""
    body = pod(WEB, **{"containers": [PROBED], role: [PROBED]})
    field = "initContainerStatuses" if role == "initContainers" else "containerStatuses"
    container = {"name": SPEC["name"], "containerID": f"containerd://{container_id}", "state": state}
    body["status"] |= {field: [{**container, "started": True, "ready": True, **more}], "conditions": READY}
    return parse_pod(body)


@pytest.mark.parametrize(
    "state", [{"running": {}}, {"terminated": ENDED}, {"waiting": {"reason": "CrashLoopBackOff"}}], ids=str
)
def test_a_container_that_was_started_again_is_not_as_the_one_before_was(state: dict[str, Any]) -> None:
    (seen,) = as_they_run((shown(state, lastState={"terminated": ENDED}, restartCount=2),), inventory(RUNS))

    (status,) = seen.states.values()
    assert (status["state"], status["started"], status["ready"], status["restartCount"]) == (
        {"running": {}},
        False,
        False,
        3,
    )
    assert status["lastState"] == {"terminated": ENDED}
    assert not seen.ready
    assert dict(seen.running) == {"nginx": ContainerId("before" if "running" in state else "")}


def test_what_ended_last_is_told_by_the_state_before_an_older_one() -> None:
    older = {"terminated": {**ENDED, "exitCode": 0}}

    (seen,) = as_they_run((shown({"terminated": ENDED}, lastState=older),), inventory(RUNS))

    assert [each.previous_exit_code for each in seen.statuses] == [1]


def test_what_is_shown_as_it_runs_or_runs_no_more_stays_as_it_is_shown() -> None:
    ended = replace(RUNS, id=ContainerId("after"), state=ContainerState.EXITED)
    current, elsewhere = shown({"running": {}}, RUNS.id), parse_pod(pod(replace(WEB, name="other")))

    assert as_they_run((current, elsewhere), inventory(RUNS, ended)) == (current, elsewhere)


@pytest.mark.parametrize("role", ["containers", "initContainers"])
def test_a_startup_probe_that_the_instance_before_passed_is_awaited_again(role: str) -> None:
    container = {**PROBED, "restartPolicy": "Always"} if role == "initContainers" else PROBED
    body = shown({"running": {}}, role=role).raw
    before = parse_pod({**body, "spec": {**body["spec"], role: [container]}})

    def found(pods: tuple[Pod, ...]) -> list[str]:
        traffic = Traffic(pods=pods, current=OLD, target=NEW, settle=60, clients=Clients())
        return [each.detail for each in probes_let_containers_live(traffic)]

    assert not any("has not succeeded yet" in detail for detail in found((before,)))
    assert any("has not succeeded yet" in detail for detail in found(as_they_run((before,), inventory(RUNS))))
