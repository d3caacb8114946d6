"""What Argo CD, Flux and ``kubectl wait`` make of a NodeUpgrade at every telling moment."""

import pytest

from tests.contract.gitops import argo
from tests.contract.gitops.examples import HEALTH
from tests.contract.gitops.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, kstatus, waited_for
from tests.contract.gitops.recorded import conditions, is_true, load

WAITING = {"Paused", "AwaitingApproval", "WaitingForWindow"}


@pytest.mark.parametrize("name", load())
def test_all_tools_tell_the_same(name: str) -> None:
    """Argo CD distinguishes what waits for a person or a window from what works; kstatus knows no such thing."""
    body = load()[name]
    health, message = argo.health(HEALTH, body)
    agreed = {
        "Healthy": {CURRENT},
        "Degraded": {FAILED},
        "Suspended": {IN_PROGRESS},
        "Progressing": {IN_PROGRESS, TERMINATING},
    }
    assert kstatus(body) in agreed[health], health
    assert message


@pytest.mark.parametrize("name", load())
def test_waiting_never_pages_and_failing_does(name: str) -> None:
    body = load()[name]
    reasons = {condition["reason"] for condition in conditions(body) if condition["type"] == "Reconciling"}
    health, _ = argo.health(HEALTH, body)
    assert (health == "Suspended") == (is_true("Reconciling")(body) and bool(reasons & WAITING))
    if waited_for(body, "Succeeded", "False"):
        assert health == "Degraded"


@pytest.mark.parametrize("name", load())
def test_conditions_keep_the_order_that_kstatus_asks_for(name: str) -> None:
    body = load()[name]
    assert not (is_true("Reconciling")(body) and is_true("Stalled")(body))
    assert not (is_true("Ready")(body) and (is_true("Reconciling")(body) or is_true("Stalled")(body)))
    generation = body["metadata"]["generation"]
    seen = {condition["observedGeneration"] for condition in conditions(body)}
    assert seen <= {generation} if name != "generation-lag" else seen == {generation - 1}


def test_created_again_succeeds_without_touching_a_node() -> None:
    status = load()["created-again"]["status"]
    assert status["counts"]["skipped"] == status["counts"]["total"]
    assert "startedAt" not in status
