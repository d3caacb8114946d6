"""Tests the requests that verify the readiness guard, and how their responses are interpreted."""

import json

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.node.agent.guard_trials import InForce, NotInForce, node_trial, pod_trials
from tests.builders.reported_pods import DELETED, ENDED, READY, UNPROBED, UNREADY, pod

DENIED = (
    "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'readiness-guard.nodeupgrade.dev' with binding "
    "'readiness-guard.nodeupgrade.dev' denied request: the kubelet of this node is being upgraded"
)

NOT_GUARDABLE = [UNREADY, DELETED, pod("True", state=ENDED), UNPROBED]


@pytest.mark.parametrize("other", NOT_GUARDABLE, ids=["unready", "deleted", "ended", "no probe"])
def test_only_pods_are_tried_that_the_guard_has_to_guard(other: Json) -> None:
    assert pod_trials([other]) == ()
    (trial,) = pod_trials([other, READY])
    assert trial.path == "/api/v1/namespaces/default/pods/web/status"
    assert trial.patch["metadata"] == {"uid": "1"}, "a successor of the same name is another pod"


def test_a_few_pods_are_enough() -> None:
    assert len(pod_trials([READY] * 9)) == 3


def test_they_are_of_several_namespaces() -> None:
    """A tenant may write what the API server has of its pods so that the guard lets their reports pass."""
    tenants = [{**READY, "metadata": {**READY["metadata"], "name": f"a{number}"}} for number in range(5)]
    other = {**READY, "metadata": {**READY["metadata"], "namespace": "kube-system"}}

    assert [trial.subject for trial in pod_trials([*tenants, other])] == [
        "pod default/a0",
        "pod kube-system/web",
        "pod default/a1",
    ]


def test_what_answers_mean() -> None:
    (trial,) = pod_trials([READY])
    assert trial.judge(422, json.dumps({"message": DENIED})) == InForce()
    assert trial.judge(200, "{}") == NotInForce("the kubelet may report pod default/web unready")
    assert trial.judge(403, json.dumps({"message": "no"})) == NotInForce(
        "asked about pod default/web, the API server answers 403: no"
    )
    assert trial.judge(502, "<html>") == NotInForce("asked about pod default/web, the API server answers 502: <html>")
    of_node = node_trial("web-1").judge(422, json.dumps({"message": DENIED}))
    assert isinstance(of_node, NotInForce), "the Node has a policy of its own"


NAMED = "readiness-guard.nodeupgrade.dev"
NOT_BY_THE_GUARD = (
    (404, f'pods "{NAMED}" not found'),
    (409, f'Operation cannot be fulfilled on pods "{NAMED}": Precondition failed: UID in precondition: 1, …'),
    (403, f'pods "{NAMED}" is forbidden: node "web-1" can only change its own pods'),
    (400, f'admission webhook "other" denied the request: ValidatingAdmissionPolicy {NAMED!r} with binding {NAMED!r}'),
)


@pytest.mark.parametrize(("status", "message"), NOT_BY_THE_GUARD, ids=lambda each: str(each)[:20])
def test_a_pod_that_is_called_like_the_guard_does_not_stand_for_it(status: int, message: str) -> None:
    """Whoever creates pods names them, and deletes one between the look at it and the trial."""
    (trial,) = pod_trials([READY])

    assert isinstance(trial.judge(status, json.dumps({"message": message})), NotInForce)
