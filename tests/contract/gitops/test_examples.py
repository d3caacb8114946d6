"""The examples are what they say they are."""

import pytest
import yaml
from lupa.lua51 import LuaError

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade import object as upgrade
from nodeupgrade.cli.commands.steering import MANAGER
from nodeupgrade.cli.inputs.lint import lint
from tests.contract.gitops import argo
from tests.contract.gitops.examples import EXAMPLES, HEALTH, WRITTEN, upgrades

HEALTH_KEY = "resource.customizations.health.nodeupgrade.dev_NodeUpgrade"


def test_config_map_holds_the_health_script() -> None:
    body = yaml.safe_load((EXAMPLES / "argocd" / "argocd-cm.yaml").read_text(encoding="utf-8"))
    assert body["data"] == {HEALTH_KEY: HEALTH}


@pytest.mark.parametrize("path", ["argocd/application.yaml", "clusters/argocd/applicationset.yaml"])
def test_people_s_annotations_are_no_drift(path: str) -> None:
    spec = yaml.safe_load((EXAMPLES / path).read_text(encoding="utf-8"))["spec"]
    (rule,) = spec.get("template", {"spec": spec})["spec"]["ignoreDifferences"]
    ours = {value for name, value in vars(upgrade).items() if name.endswith("_ANNOTATION")}
    pointers = {"/metadata/annotations/" + name.replace("/", "~1") for name in ours}
    assert (rule["group"], rule["kind"], set(rule["jsonPointers"])) == ("nodeupgrade.dev", "NodeUpgrade", pointers)


@pytest.mark.parametrize(
    ("folder", "annotations"),
    [
        ("argocd", {"argocd.argoproj.io/sync-options": "Prune=confirm,Delete=confirm"}),
        ("flux", {"kustomize.toolkit.fluxcd.io/prune": "disabled", "kustomize.toolkit.fluxcd.io/ssa": "Merge"}),
    ],
)
def test_no_commit_deletes_a_running_upgrade_by_accident(folder: str, annotations: dict[str, str]) -> None:
    for name, body in upgrades(folder).items():
        assert annotations.items() <= body["metadata"]["annotations"].items(), name


def test_batches_of_argo_cd_take_turns() -> None:
    turns = [body["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"] for body in upgrades("argocd").values()]
    assert turns == ["0", "1"]


def test_names_are_never_used_twice() -> None:
    names = [body["metadata"]["name"] for body in upgrades().values()]
    assert len(names) == len(set(names))


def test_flux_leaves_the_brake_of_our_command_line_alone() -> None:
    """Flux takes over what managers wrote whose name has this prefix (``judges/apply.go``)."""
    assert not MANAGER.startswith("kubectl")


@pytest.mark.parametrize("name", upgrades())
def test_lint_finds_nothing(name: str) -> None:
    assert lint(upgrades()[name], now=WRITTEN) == ()


def test_plan_becomes_a_run_with_one_line() -> None:
    """What examples/waves/approval.yaml tells people to do, edit by edit."""
    plan = upgrades()["waves/approval.yaml:kubelet-1-33-13-approved"]
    run = {**plan, "spec": {**plan["spec"], "action": "Run"}}
    approved = {**run, "spec": {**run["spec"], "approvedWaves": ["production"]}}
    assert lint(run, plan) == lint(approved, run) == ()


@pytest.mark.parametrize(
    "script",
    [
        "return {status = string.upper('healthy'), message = ''}",
        "return {status = ('healthy'):upper(), message = ''}",
        "return {status = 'Healthy', message = os.date()}",
        "return {status = 'Healthy', message = io.open('x')}",
        "return {status = 'Healthy', message = require('string').upper('x')}",
    ],
)
def test_sandbox_offers_nothing_that_argo_cd_does_not(script: str) -> None:
    with pytest.raises(LuaError):
        argo.health(script, {})


def condition(kind: str, status: str, reason: str = "Progressing") -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": "so it is"}


def judged(*conditions: Json, generation: int = 2, observed: int | None = 2) -> str:
    status = {"conditions": list(conditions)} | ({} if observed is None else {"observedGeneration": observed})
    return argo.health(HEALTH, {"metadata": {"generation": generation}, "status": status})[0]


def test_health_of_objects_that_nobody_recorded() -> None:
    """Older objects, half-written ones, and what no planner writes: never Healthy by mistake, never an error."""
    ready = condition("Ready", "True", "Succeeded")
    assert argo.health(HEALTH, {"metadata": {"generation": 1}})[0] == "Progressing"
    assert argo.health(HEALTH, {"metadata": {"generation": 1}, "status": {"observedGeneration": 1}})[0] == "Progressing"
    assert judged() == "Progressing"
    assert judged(ready) == "Healthy"
    assert judged(ready, observed=1) == "Progressing"
    assert judged(ready, observed=None) == "Progressing"
    assert judged(ready, condition("Stalled", "True", "RollbackFailed")) == "Degraded"
    assert judged(ready, condition("Succeeded", "False", "Aborted")) == "Degraded"
    assert judged(ready, condition("Reconciling", "True")) == "Progressing"
    assert judged(condition("Ready", "False")) == "Progressing"
    for reason in ("Paused", "AwaitingApproval", "WaitingForWindow"):
        assert judged(condition("Reconciling", "True", reason)) == "Suspended"
    for reason in ("Queued", "Soaking", "Progressing"):
        assert judged(condition("Reconciling", "True", reason)) == "Progressing"
