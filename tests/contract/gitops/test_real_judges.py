"""The recorded objects before the real programs: what the fast tests restate must be what these say."""

from typing import Any

import pytest
import yaml

from tests.contract.gitops import argo
from tests.contract.gitops.examples import DEPENDENCIES, HEALTH, documents, flux_expressions, ready_expression
from tests.contract.gitops.kstatus import kstatus
from tests.contract.gitops.real_judges import JUDGES, tell
from tests.contract.gitops.recorded import load
from tests.contract.go_program import have

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Any]:
    have(JUDGES)
    manifests = {path: yaml.safe_dump(body) for path, body in documents("flux") if body["kind"] == "Kustomization"}
    assert manifests
    question = {
        "objects": load(),
        "health": HEALTH,
        "expressions": flux_expressions(),
        "readyExpr": ready_expression(),
        "dependencies": DEPENDENCIES,
        "kustomizations": manifests,
    }
    return tell("judge", question)


def test_kstatus(verdicts: dict[str, Any]) -> None:
    expected = {name: kstatus(body) for name, body in load().items()}
    assert {name: told["kstatus"] for name, told in verdicts["objects"].items()} == expected
    assert {name: told["fluxKstatus"] for name, told in verdicts["objects"].items()} == expected


def test_argo_cd_interprets_the_health_script_likewise(verdicts: dict[str, Any]) -> None:
    expected = {name: argo.health(HEALTH, body) for name, body in load().items()}
    told = {name: (each["argo"]["status"], each["argo"]["message"]) for name, each in verdicts["objects"].items()}
    assert told == expected


def test_flux_expressions_wait_for_success_and_nothing_less(verdicts: dict[str, Any]) -> None:
    """Where kstatus says Current of a plan that is ready, the expressions go on waiting for the upgrade."""
    recorded = load()
    for name, told in verdicts["objects"].items():
        body, plain = recorded[name], kstatus(recorded[name])
        only_planned = body["status"].get("phase") == "Planned" and plain == "Current"
        expected = "InProgress" if only_planned or plain == "Terminating" else plain
        assert told["flux"] == expected, name


def test_ready_expression(verdicts: dict[str, Any]) -> None:
    assert verdicts["dependencies"] == {name: name == "healthy" for name in DEPENDENCIES}


def test_kustomizations_have_only_fields_that_flux_knows(verdicts: dict[str, Any]) -> None:
    assert {name: error for name, error in verdicts["kustomizations"].items() if error} == {}
