"""A pod whose own rules restart it is not damaged, and one that the kubelet restarts is, whatever its rules say."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import Refused
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.run.report import RunReport
from tests.doubles.node import plan_for, pod_json
from tests.doubles.node.containers.runtime import KILLED, TERMINATED
from tests.scenario.node_run.test_node_run import LIMITS, Story, story
from tests.scenario.node_run.test_settling import while_settling
from tests.scenario.node_run.test_shield import wrongly_planned

CODE = 88
ALL = ("default/train/main", "default/train/peer", "default/train/proxy")


def rule(action: str, *codes: int, operator: str = "In") -> Json:
    return {"action": action, "exitCodes": {"operator": operator, "values": [*codes]}}


RESTART_ALL = rule("RestartAllContainers", CODE)


def with_rules(pod: Json, rules: Mapping[str, list[Json]]) -> Json:
    containers = [
        {**each, "restartPolicy": "Never", "restartPolicyRules": rules[each["name"]]} if each["name"] in rules else each
        for each in pod["spec"]["containers"]
    ]
    return {**pod, "spec": {**pod["spec"], "containers": containers}}


def training(
    *rules: Json, old: str = "v1.36.0", new: str = "v1.36.3", policy: str = "Never", shield: bool = True
) -> Story:
    """A node with a pod of two containers and a sidecar, the first of which has these rules."""
    pod = pod_json("train", "main", "peer", sidecars=("proxy",), restart_policy=policy)
    return story(old, new, more=(with_rules(pod, {"main": [*rules]}),), shield=shield)


def ends(it: Story, exit_code: int, name: str = "main") -> RunReport:
    while_settling(it, lambda: it.node.runtime.end(it.container(name), exit_code))
    return it.tell()


def running(it: Story) -> set[str]:
    return {c.label for c in it.node.inventory().running() if c.pod.name == "train"}


def replaced(it: Story) -> set[str]:
    present = {c.id for c in it.node.inventory().running()}
    return {c.label for c in it.plan.baseline.running() if c.id not in present}


def test_a_pod_whose_own_rule_restarts_all_of_it_is_not_damaged() -> None:
    it = training(RESTART_ALL)

    report = ends(it, CODE)

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report
    assert sorted(report.ended) == [*ALL]
    assert replaced(it) == running(it) == {*ALL}
    assert it.node.shield.refused() == ()


def test_a_pod_of_one_container_leaves_no_trace_but_that_of_the_shield() -> None:
    it = story("v1.36.0", "v1.36.3", more=(with_rules(pod_json("train", "main"), {"main": [RESTART_ALL]}),))

    report = ends(it, CODE)

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, ("default/train/main",)), report


def test_control_without_the_shield_nothing_shows_who_ended_first() -> None:
    it = training(RESTART_ALL, shield=False)

    report = ends(it, CODE)

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED)


@pytest.mark.parametrize("exit_code", [KILLED, TERMINATED, 137])
def test_an_end_by_a_signal_explains_nothing(exit_code: int) -> None:
    it = training(rule("RestartAllContainers", 0, operator="NotIn"))

    report = ends(it, exit_code)

    assert report.outcome is Outcome.ROLLED_BACK
    assert report.reason in {Reason.CONTAINER_RESTARTED, Reason.SHIELD_REFUSED_CALL}
    assert report.ended == ()


def test_what_the_shield_cannot_write_down_it_does_not_let_through() -> None:
    it = training(RESTART_ALL)
    it.node.shield.unwritable = True

    report = ends(it, CODE)

    assert report.outcome is Outcome.ROLLED_BACK


def test_a_container_that_depended_on_the_runtime_explains_nothing() -> None:
    it = training(RESTART_ALL)
    containers = tuple(replace(c, connected=c.name == "main") for c in it.plan.containers)
    it.plan = it.node.shield.plan = replace(it.plan, containers=containers)

    report = ends(it, CODE)

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)


def test_a_kubelet_that_does_not_recognise_a_container_is_refused_whatever_the_rules_say() -> None:
    """If it ended that one, the exit code might be one that the rule is about."""
    it = wrongly_planned(training(rule("RestartAllContainers", 0, operator="NotIn")), "main")

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert replaced(it) == set()


def test_a_rule_that_the_old_kubelet_does_not_know_excuses_nothing() -> None:
    it = training(RESTART_ALL, old="v1.35.4")

    report = ends(it, CODE)

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL), report


def test_a_container_that_its_own_rule_starts_again_ended_by_itself() -> None:
    it = training(rule("Restart", CODE))

    report = ends(it, CODE)

    assert (report.outcome, report.restarted, report.ended) == (Outcome.UPGRADED, 0, ("default/train/main",)), report
    assert replaced(it) == {"default/train/main"}
    assert running(it) == {*ALL}


def test_a_pod_is_over_if_no_rule_starts_it_again() -> None:
    it = story("v1.36.0", "v1.36.3", more=(
        with_rules(pod_json("train", "main", sidecars=("proxy",), restart_policy="Never"), {"main": [RESTART_ALL]}),
    ))  # fmt: skip

    report = ends(it, 0)

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report
    assert report.ended == ("default/train/proxy",)
    assert running(it) == set()
    assert it.node.shield.refused() == ()


def test_a_pod_that_is_about_to_be_restarted_is_waited_for() -> None:
    it = training(RESTART_ALL)
    it.node.runtime.end(it.container("main"), CODE)

    with pytest.raises(Refused, match="main has ended with exit code 88"):
        plan_for(it.node, "v1.36.3", limits=LIMITS)
