"""A pod whose own rules restart it as a whole is refused; one whose rules restart a container ends by itself."""

from functools import partial

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Refused
from nodeupgrade.node.journal.journal import Outcome
from tests.doubles.node import pod_json
from tests.scenario.node_run.test_node_run import Story, story
from tests.scenario.node_run.test_settling import while_settling

CODE = 88


def training(action: str) -> Story:
    """A node with a pod of two containers and a sidecar, the first of which has a rule with this action."""
    pod = pod_json("train", "main", "peer", sidecars=("proxy",), restart_policy="Never")
    rule: Json = {"action": action, "exitCodes": {"operator": "In", "values": [CODE]}}
    own = {"main": {"restartPolicy": "Never", "restartPolicyRules": [rule]}}
    containers = [{**each, **own.get(each["name"], {})} for each in pod["spec"]["containers"]]
    return story("v1.36.0", "v1.36.3", more=({**pod, "spec": {**pod["spec"], "containers": containers}},))


def running(it: Story) -> set[str]:
    return {c.name for c in it.node.inventory().running() if c.pod.name == "train"}


def test_a_pod_that_may_restart_as_a_whole_is_refused() -> None:
    with pytest.raises(Refused, match="restartPolicyRules of main restart all of its containers") as refused:
        training("RestartAllContainers")

    assert refused.value.finding.reason is Reason.POD_MAY_RESTART_AS_A_WHOLE


def test_a_container_that_its_own_rule_starts_again_ended_by_itself() -> None:
    it = training("Restart")
    first = it.container("main")
    while_settling(it, lambda: it.node.runtime.end(first, CODE))

    report = it.tell()

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, ("default/train/main",)), report
    assert running(it) == {"main", "peer", "proxy"}
    assert first not in {c.id for c in it.node.inventory().running()}


def test_of_a_pod_with_rules_nobody_knows_when_it_is_over() -> None:
    """The shield keeps its sidecar, and the run goes back."""
    it = training("Restart")
    for name in ("main", "peer"):
        while_settling(it, partial(it.node.runtime.end, it.container(name), 0))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL), report
