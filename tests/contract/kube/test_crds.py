"""The CRDs on a real API server: what it accepts, what it fills in, what people see."""

import contextlib
import copy
import itertools
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeupgrade.api.json import Json, MalformedObjectError, to_json
from nodeupgrade.api.schema.defaulting import filled
from nodeupgrade.api.task.spec import CordonRecord, TaskAction
from nodeupgrade.api.task.status import TaskStatus
from nodeupgrade.api.upgrade.frozen import frozen_digest
from nodeupgrade.api.upgrade.object import parse_spec, parse_upgrade
from nodeupgrade.api.upgrade.spec import SPEC, RolloutAction
from nodeupgrade.cli.inputs.lint import lint
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import ENDPOINTS, SERVICES, TASKS, UPGRADES, RejectedError
from tests.builders.specs import FULL, INVALID, MINIMAL, MISUNDERSTOOD, OTHER
from tests.builders.tasks import task_object, task_spec
from tests.contract.conftest import serving
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

GOLDEN = ROOT / "tests" / "golden" / "crds"
NEED_RULES = {
    "two artifacts",
    "no artifact",
    "no platform",
    "no nodes",
    "empty selector",
    "selector of nothing",
    "all: false",
    "In without values",
    "Exists with values",
    "image path of the kernel",
    "label's key",
    "excludes everything",
    "wave without nodes",
    "wave with both",
    "wave called remainder",
    "growth that does not grow",
    "window of no length",
    "blackout upside down",
    "no time without a kubelet",
    "no time at all",
    "path of the kernel",
    "shield held too long",
    "static pod as a file",
    "file of no source",
    "file of two sources",
    "file from no image",
    "files of one path",
    "check longer than its interval",
    "check of Secrets",
    "check of a name and a label",
    "check of nothing",
    "check of two things",
    "check too often",
    "check too seldom",
    "check without an end",
}
"""What an API server without CEL lets through, and only the control plane then reports."""


@pytest.fixture(scope="module")
def old_api_server() -> Iterator[ApiServer]:
    """An API server with the manifests for old ones."""
    with serving(ROOT / "overlays/without-cel") as server:
        yield server


def object_of(name: str, spec: Json) -> Json:
    return {**upgrade_object(name), "spec": copy.deepcopy(spec)}


@pytest.mark.parametrize("spec", INVALID.values(), ids=INVALID.keys())
async def test_invalid_specs_are_rejected_by_both(admin: KubeClient, spec: Json) -> None:
    """The API server and the control plane agree, since an old API server knows no CEL."""
    body = object_of("invalid", spec)
    with pytest.raises(RejectedError):
        await admin.create(UPGRADES, body)
    with pytest.raises(MalformedObjectError):
        parse_spec(body["spec"])
    assert any(finding.forbids for finding in lint(body))


async def test_what_an_old_api_server_lets_through_is_reported(old_api_server: ApiServer) -> None:
    stored: dict[str, Json] = {}
    async with KubeClient.open(old_api_server.kubeconfig()) as admin:
        for number, (what, spec) in enumerate(INVALID.items()):
            with contextlib.suppress(RejectedError):
                stored[what] = await admin.create(UPGRADES, object_of(f"invalid-{number}", spec))
    assert set(stored) == NEED_RULES
    assert [what for what, body in stored.items() if not parse_upgrade(body).problem] == []


async def test_an_old_api_server_lets_edits_through_that_the_digest_tells(old_api_server: ApiServer) -> None:
    async with KubeClient.open(old_api_server.kubeconfig()) as admin:
        accepted = parse_upgrade(await admin.create(UPGRADES, object_of("edited", FULL)))
        slower = await admin.merge(UPGRADES, "edited", {"spec": {"strategy": {"maxConcurrent": 1}}})
        assert parse_upgrade(slower).spec_digest == accepted.spec_digest
        another = await admin.merge(UPGRADES, "edited", {"spec": {"version": "v1.32.0"}})
        assert parse_upgrade(another).spec_digest != accepted.spec_digest
        back = await admin.merge(UPGRADES, "edited", {"spec": {"version": FULL["version"]}})
        assert parse_upgrade(back).spec_digest == accepted.spec_digest


@pytest.mark.parametrize("spec", MISUNDERSTOOD.values(), ids=MISUNDERSTOOD.keys())
async def test_what_no_api_server_understands_is_reported(admin: KubeClient, spec: Json) -> None:
    created = await admin.create(UPGRADES, object_of("misunderstood", spec))
    await admin.delete(UPGRADES, "misunderstood")
    assert parse_upgrade(created).problem.startswith("spec.windows[0].")


@pytest.mark.parametrize("spec", [MINIMAL, FULL, OTHER], ids=["minimal", "full", "other"])
async def test_defaults_are_filled_in_alike(admin: KubeClient, spec: Json) -> None:
    valid = {**spec, "approvedWaves": []}
    created = await admin.create(UPGRADES, object_of("filled", valid))
    await admin.delete(UPGRADES, "filled")
    assert created["spec"] == filled(SPEC, valid)
    assert parse_upgrade(created).spec_digest == frozen_digest(valid)


async def test_nulls_are_nothing(admin: KubeClient) -> None:
    spec = {**MINIMAL, "waves": None, "strategy": {"maxConcurrent": None, "topology": None}, "timeouts": {"wave": None}}
    created = await admin.create(UPGRADES, object_of("nulls", spec))
    await admin.delete(UPGRADES, "nulls")
    assert created["spec"] == filled(SPEC, spec) == filled(SPEC, MINIMAL)


async def test_unknown_fields_are_dropped_and_lint_says_so(admin: KubeClient) -> None:
    body = object_of("unknown", {**MINIMAL, "stategy": {"maxConcurrent": 5}})
    created = await admin.create(UPGRADES, body)
    await admin.delete(UPGRADES, "unknown")
    assert created["spec"] == filled(SPEC, MINIMAL)
    assert [str(problem) for problem in lint(body)] == ["spec.stategy: unknown field; did you mean strategy?"]


@pytest.mark.parametrize("before", RolloutAction)
@pytest.mark.parametrize("after", RolloutAction)
async def test_actions_follow_one_another(admin: KubeClient, before: RolloutAction, after: RolloutAction) -> None:
    name = f"from-{before}-to-{after}".lower()
    allowed = {"Plan": {"Run", "Abort"}, "Run": {"Pause", "Abort"}, "Pause": {"Run", "Abort"}, "Abort": set[str]()}
    body = object_of(name, {**MINIMAL, "action": before})
    await admin.create(UPGRADES, body)
    changing = admin.merge(UPGRADES, name, {"spec": {"action": after}})
    problems = lint(object_of(name, {**MINIMAL, "action": after}), body)
    if after == before or after in allowed[before]:
        await changing
        assert problems == ()
    else:
        with pytest.raises(RejectedError, match="create another NodeUpgrade"):
            await changing
        assert [problem.subject for problem in problems] == ["spec.action"]
    await admin.delete(UPGRADES, name)


async def test_approvals_name_waves_and_stay(admin: KubeClient) -> None:
    waves = [{"name": "canary", "size": 1, "approval": "Manual"}]
    await admin.create(UPGRADES, object_of("approvals", {**MINIMAL, "waves": waves}))
    with pytest.raises(RejectedError, match="names a wave that does not exist"):
        await admin.merge(UPGRADES, "approvals", {"spec": {"approvedWaves": ["batch"]}})
    await admin.merge(UPGRADES, "approvals", {"spec": {"approvedWaves": ["canary"]}})
    await admin.merge(UPGRADES, "approvals", {"spec": {"approvedWaves": ["remainder", "canary"]}})
    with pytest.raises(RejectedError, match="cannot be taken back"):
        await admin.merge(UPGRADES, "approvals", {"spec": {"approvedWaves": ["canary"]}})
    await admin.delete(UPGRADES, "approvals")


@pytest.mark.parametrize(
    "patch",
    [
        {"version": "v1.32.0"},
        {"allowDowngrade": True},
        {"skewPolicy": "Warn"},
        {"nodes": {"all": True}},
        {"kubelet": {"unit": "other.service"}},
        {"verify": {"settle": "5m"}},
        {"artifact": {"preStaged": {"linux-amd64": {"path": "/elsewhere"}}}},
    ],
    ids=lambda patch: next(iter(patch)),
)
async def test_what_is_immutable_stays(admin: KubeClient, patch: Json) -> None:
    name = f"immutable-{next(iter(patch)).lower()}"
    await admin.create(UPGRADES, upgrade_object(name))
    with pytest.raises(RejectedError, match="immutable"):
        await admin.merge(UPGRADES, name, {"spec": patch})


async def test_what_may_change_may(admin: KubeClient) -> None:
    await admin.create(UPGRADES, upgrade_object("mutable"))
    patch = {"action": "Pause", "strategy": {"maxConcurrent": 2}, "timeouts": {"node": "1h"}}
    await admin.merge(UPGRADES, "mutable", {"spec": patch})


async def test_defaults_are_what_the_control_plane_assumes(admin: KubeClient) -> None:
    body = upgrade_object("defaults")
    body["spec"].pop("verify")
    created = await admin.create(UPGRADES, body)
    assert created["status"] == {"observedGeneration": -1}
    assert parse_upgrade(created).spec == parse_spec(body["spec"])


@pytest.mark.parametrize("action", TaskAction)
async def test_only_tasks_at_rest_need_no_run(admin: KubeClient, action: TaskAction) -> None:
    name = f"rest-{action}".lower()
    creating = admin.create(
        TASKS, {**task_object(name), "spec": {**to_json(task_spec(name)), "runID": "", "action": action}}
    )
    if action in {TaskAction.WAIT, TaskAction.RELEASE}:
        await creating
        return
    with pytest.raises(RejectedError, match="needs a runID"):
        await creating


async def test_task_is_named_after_its_node(admin: KubeClient) -> None:
    with pytest.raises(RejectedError, match="named after its node"):
        await admin.create(TASKS, {**task_object("node-b"), "spec": to_json(task_spec("node-a"))})


async def test_example_is_valid(api_server: ApiServer) -> None:
    api_server.kubectl("apply", "--dry-run=server", "-f", str(ROOT / "manifests/examples/nodeupgrade.yaml"))


STATUS: dict[str, Any] = {
    "phase": "Running",
    "progress": "412/3500",
    "failed": 2,
    "counts": {"skipped": 3},
    "containers": {"restarted": 0},
    "currentWave": {"name": "batch-1", "index": 2, "of": 3},
    "startedAt": "2026-01-01T00:00:00Z",
    "nextWindow": "2026-12-24T22:00:00Z",
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "Progressing",
            "message": "412 of 3500 nodes run v1.33.13, 1 in flight",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ],
}


TASK_STATUS: dict[str, Any] = {
    "phase": "Refused",
    "reason": "StoredHashNotReproduced",
    "message": "node untouched",
    "containers": {"restarted": 0},
    "kubelet": {"downSeconds": 0.9},
    "preview": {"wouldRestart": 61},
    "hazards": [
        {
            "reason": "StoredHashNotReproduced",
            "check": "hashes_are_reproduced",
            "pod": "default/web/nginx",
            "detail": "stored hash 1 is not 2",
            "pods": 1,
            "others": [],
            "owners": [{"name": "Deployment default/web", "pods": 1}],
        },
        {"reason": "ReadinessProbeFailing", "check": "readiness_probes_succeed", "warning": True},
    ],
}


@pytest.mark.parametrize("output", ["", "wide"], ids=["default", "wide"])
async def test_columns(admin: KubeClient, api_server: ApiServer, output: str) -> None:
    name, arguments = f"columns{output}", ["-o", output] if output else []
    await admin.create(UPGRADES, upgrade_object(name))
    await admin.replace_status(UPGRADES, name, STATUS)
    task = replace(task_spec(name), wave="batch-1", order=7, cordon=CordonRecord(by_us=True))
    await admin.create(TASKS, {**task_object(name), "spec": to_json(task)})
    await admin.replace_status(TASKS, name, TASK_STATUS)
    for kind in ("nu", "nut"):
        check(GOLDEN / f"get-{kind}{output}.txt", timeless(api_server.kubectl("get", kind, name, *arguments)))


def timeless(table: str) -> str:
    """Replace ages, whose width varies too, and the spaces that line the columns up."""
    header, *rows = table.splitlines()
    starts = [found.start() for found in re.finditer(r"(?<!\S)\S+( \S+)*", header)]
    bounds = list(itertools.zip_longest(starts, starts[1:]))
    lines = [[line[start:end].strip() for start, end in bounds] for line in (header, *rows)]
    ages = {index for index, title in enumerate(lines[0]) if title in {"AGE", "STARTED"}}
    for cells in lines[1:]:
        cells[:] = ["…" if index in ages else cell for index, cell in enumerate(cells)]
    return "".join(" | ".join(cells) + "\n" for cells in lines)


def check(golden: Path, told: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(told)
    assert told == golden.read_text()


async def test_agents_may_do_what_they_must_and_nothing_else(admin: KubeClient, api_server: ApiServer) -> None:
    await admin.create(TASKS, {**task_object("rbac"), "spec": to_json(task_spec("rbac"))})
    async with KubeClient.open(api_server.agent_kubeconfig("rbac")) as agent:
        await agent.get_task("rbac")
        await agent.patch_task_status("rbac", TaskStatus(run_id="run-1"))
        await agent.list_pods_on_node("rbac")
        await agent.list_services(["default"])
        await agent.list_dependants(["default"])
        await agent.list(ENDPOINTS.within("default"))
        forbidden = [
            agent.merge(TASKS, "rbac", {"spec": {"action": "Wait"}}),
            agent.list(TASKS),
            agent.delete(TASKS, "rbac"),
            agent.list(UPGRADES),
            agent.get(SERVICES.within("default"), "kubernetes"),
            agent.merge(UPGRADES, "rbac", {"spec": {"action": "Pause"}}),
        ]
        for attempt in forbidden:
            with pytest.raises(RejectedError, match="forbidden"):
                await attempt


@pytest.mark.parametrize("folder", ["crds", "crds/without-cel"])
@pytest.mark.parametrize("plural", ["nodeupgrades", "nodeupgradetasks"])
def test_nothing_of_the_schema_is_dropped(
    api_server: ApiServer, old_api_server: ApiServer, plural: str, folder: str
) -> None:
    """The API server forgets keywords that it does not know without a word."""
    server = api_server if folder == "crds" else old_api_server
    stored = json.loads(server.kubectl("get", f"crd/{plural}.nodeupgrade.dev", "-o", "json"))
    (version,) = stored["spec"]["versions"]
    written = yaml.load((ROOT / folder / f"{plural}.yaml").read_text(), Loader=yaml.CSafeLoader)
    assert version["schema"] == written["spec"]["versions"][0]["schema"]
