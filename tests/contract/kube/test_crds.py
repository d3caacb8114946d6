"""The CRDs on a real API server: what it accepts, what it fills in, what people see."""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeupgrade.adapters.kube import KubeClient
from nodeupgrade.domain.task import CordonRecord, TaskStatus
from nodeupgrade.domain.upgrade_spec import parse_spec, parse_upgrade
from nodeupgrade.domain.wire import Json, MalformedObjectError, to_json
from nodeupgrade.ports.kube import TASKS, UPGRADES, RejectedError
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.test_kube_api import task_object, task_spec
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

GOLDEN = ROOT / "tests" / "golden" / "crds"
DIGEST = "a" * 64

INVALID: dict[str, Json] = {
    "version without v": {"version": "1.33.13"},
    "version of two parts": {"version": "v1.33"},
    "no artifact": {"artifact": {}},
    "two artifacts": {
        "artifact": {
            "image": {"ref": f"registry.example/kubelet@sha256:{DIGEST}", "path": "/kubelet"},
            "preStaged": {"linux-amd64": {"path": "/opt/kubelet", "sha256": DIGEST}},
        }
    },
    "image without digest": {"artifact": {"image": {"ref": "registry.example/kubelet:v1", "path": "/kubelet"}}},
    "relative path": {"artifact": {"preStaged": {"linux-amd64": {"path": "kubelet", "sha256": DIGEST}}}},
    "short digest": {"artifact": {"preStaged": {"linux-amd64": {"path": "/kubelet", "sha256": "abc"}}}},
    "no URL": {"artifact": {"platforms": {"linux-amd64": {"url": "ftp://example/kubelet", "sha256": DIGEST}}}},
    "no nodes": {"nodes": {}},
    "empty selector": {"nodes": {"selector": {}}},
    "selector of nothing": {"nodes": {"selector": {"matchLabels": {}}}},
    "all: false": {"nodes": {"all": False}},
    "no slots": {"strategy": {"maxConcurrent": 0}},
    "no service": {"kubelet": {"unit": "kubelet"}},
    "no duration": {"verify": {"settle": "soon"}},
    "unknown action": {"action": "Levitate"},
    "unknown policy": {"skewPolicy": "Ignore"},
}


@pytest.mark.parametrize("spec", INVALID.values(), ids=INVALID.keys())
async def test_invalid_specs_are_rejected_by_both(admin: KubeClient, spec: Json) -> None:
    """The API server and the control plane agree, since an old API server knows no CEL."""
    body = upgrade_object("invalid", **copy.deepcopy(spec))
    with pytest.raises(RejectedError):
        await admin.create(UPGRADES, body)
    with pytest.raises(MalformedObjectError):
        parse_spec(body["spec"])


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
    async with KubeClient.open(api_server.kubeconfig("agent")) as agent:
        await agent.get_task("rbac")
        await agent.patch_task_status("rbac", TaskStatus(run_id="run-1"))
        await agent.list_pods_on_node("rbac")
        forbidden = [
            agent.merge(TASKS, "rbac", {"spec": {"action": "Wait"}}),
            agent.list(TASKS),
            agent.delete(TASKS, "rbac"),
            agent.list(UPGRADES),
            agent.merge(UPGRADES, "rbac", {"spec": {"action": "Pause"}}),
        ]
        for attempt in forbidden:
            with pytest.raises(RejectedError, match="forbidden"):
                await attempt


@pytest.mark.parametrize("plural", ["nodeupgrades", "nodeupgradetasks"])
def test_nothing_of_the_schema_is_dropped(api_server: ApiServer, plural: str) -> None:
    """The API server forgets keywords that it does not know without a word."""
    stored = json.loads(api_server.kubectl("get", f"crd/{plural}.nodeupgrade.dev", "-o", "json"))
    (version,) = stored["spec"]["versions"]
    written = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text())
    assert version["schema"] == written["spec"]["versions"][0]["schema"]
