"""The examples for many clusters wait for success and nothing less, whatever a rollout says."""

import cel
import pytest
import yaml

from nodeupgrade.api.json import Json
from nodeupgrade.cli.inputs.lint import lint
from tests.contract.gitops import argo
from tests.contract.gitops.examples import EXAMPLES, HEALTH, WRITTEN, documents
from tests.contract.gitops.kstatus import FAILED, kstatus
from tests.contract.gitops.recorded import is_true, load

SUCCEEDED = {"succeeded", "completed-with-skips", "created-again"}


def template() -> Json:
    ((_, body),) = documents("clusters/ocm")
    found: Json = body["spec"]["manifestWorkTemplate"]
    return found


def hub(body: Json) -> str:
    """How OCM's hub takes a cluster by the conditions that the rules make of an object, as its code of 2026-08 does."""
    (config,) = template()["manifestConfigs"]
    rules = {rule["condition"]: rule["celExpressions"] for rule in config["conditionRules"]}
    seen = {kind: all(cel.evaluate(each, {"object": body}) for each in rule) for kind, rule in rules.items()}
    if not seen["Progressing"]:
        return "Succeeded"
    return "Failed" if seen["Degraded"] else "Progressing"


@pytest.mark.parametrize("name", load())
def test_ocm_lets_the_next_group_begin_when_a_rollout_has_succeeded(name: str) -> None:
    body = load()[name]
    expected = "Succeeded" if name in SUCCEEDED else "Failed" if kstatus(body) == FAILED else "Progressing"
    assert hub(body) == expected
    assert hub({key: body[key] for key in body if key != "status"}) == "Progressing"


@pytest.mark.parametrize("name", load())
def test_argo_cd_begins_no_step_before_the_last_has_succeeded(name: str) -> None:
    """A step of RollingSync is over when its Applications are Healthy; a plan that is ready is, too, and says so."""
    body = load()[name]
    assert (argo.health(HEALTH, body)[0] == "Healthy") == (name in SUCCEEDED or name == "plan-ready")
    assert is_true("Ready")(body) or name not in SUCCEEDED


def test_the_rules_are_about_the_manifest() -> None:
    work = template()
    (upgrade,) = work["workload"]["manifests"]
    (config,) = work["manifestConfigs"]
    named = config["resourceIdentifier"]
    assert (named["group"], named["resource"], named["name"]) == (
        "nodeupgrade.dev", "nodeupgrades", upgrade["metadata"]["name"]
    )  # fmt: skip
    assert lint(upgrade, now=WRITTEN) == ()


def test_every_cluster_of_argo_cd_has_its_step_in_order() -> None:
    (spec,) = (body["spec"] for _, body in documents("clusters/argocd"))
    (generator,) = spec["generators"]
    stages = [each["stage"] for each in generator["list"]["elements"]]
    steps = [step["matchExpressions"][0]["values"] for step in spec["strategy"]["rollingSync"]["steps"]]
    assert [[stage] for stage in dict.fromkeys(stages)] == steps
    assert spec["template"]["metadata"]["labels"] == {"stage": "{{.stage}}"}


def test_flux_asks_for_the_same_in_every_cluster_as_in_one() -> None:
    one = list(yaml.safe_load_all((EXAMPLES / "flux" / "kustomizations.yaml").read_text(encoding="utf-8")))
    many = [body for _, body in documents("clusters/flux")]
    assert [each["spec"]["healthCheckExprs"] for each in many] == [one[0]["spec"]["healthCheckExprs"]] * len(many)
    names = [each["metadata"]["name"] for each in many]
    assert [each["spec"].get("dependsOn", [{"name": None}])[0]["name"] for each in many] == [None, *names[:-1]]
    assert all(each["spec"]["healthChecks"] and "wait" not in each["spec"] for each in many)
