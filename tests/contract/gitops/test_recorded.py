"""What Argo CD, Flux and ``kubectl wait`` make of a NodeUpgrade at every telling moment.

``UPDATE_GOLDEN=1 pytest tests/contract/gitops`` records the objects and the table anew.
"""

from __future__ import annotations

import os

import pytest

from nodeupgrade.domain.wire import Json
from tests.contract.gitops import argo
from tests.contract.gitops.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, kstatus, waited_for
from tests.contract.gitops.recorded import GOLDEN, conditions, is_true, load
from tests.contract.kube.conftest import ROOT

TABLE = GOLDEN / "table.md"
HEALTH = (ROOT / "examples" / "argocd" / "health.lua").read_text(encoding="utf-8")

WAITING = {"Paused", "AwaitingApproval", "WaitingForWindow"}


def test_verdicts() -> None:
    told = table(load())
    if os.environ.get("UPDATE_GOLDEN"):
        TABLE.write_text(told, encoding="utf-8")
    assert told == TABLE.read_text(encoding="utf-8")


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


def table(objects: dict[str, Json]) -> str:
    """Write the verdicts as a table in Markdown."""
    rows = [
        "| moment | phase | reason | Argo CD | kstatus (Flux) | `kubectl wait --for=condition=Succeeded` |",
        "|---|---|---|---|---|---|",
    ]
    for name, body in objects.items():
        phase = body["status"].get("phase", "")
        reason = next((c["reason"] for c in conditions(body) if c["type"] == "Ready"), "")
        health, _ = argo.health(HEALTH, body)
        waits = "returns" if waited_for(body, "Succeeded") else "waits"
        if waited_for(body, "Succeeded", "False"):
            waits = "waits; `=condition=Succeeded=false` returns"
        rows.append(f"| {name} | {phase} | {reason} | {health} | {kstatus(body)} | {waits} |")
    return "\n".join(rows) + "\n"
