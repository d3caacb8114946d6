"""On a narrow screen whole columns go; what is left is complete, wrapped at worst."""

import asyncio
import re
from datetime import datetime
from typing import Any

import pytest

from nodeupgrade.api.crds import KINDS
from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.openapi import Column, Kind
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.status import RolloutPhase
from nodeupgrade.cli.screens.formatting import since
from nodeupgrade.ports.kube import TASKS, UPGRADES
from tests.golden.cli.cluster import FILES, NOW, WORLD, Cluster, check

SCREENS = (
    "status",
    "status kubelet-1-33-13",
    "failures kubelet-1-33-13",
    "explain-node web-a-1",
    "evidence web-c-1",
    "plan databases.yaml --nodes",
)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_nothing_is_cut(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FILES)
    cluster = Cluster(*WORLD)
    printed = [cluster.run(f"nodeupgrade {command}", width=str(width)) for command in SCREENS]
    check(f"width-{width}.txt", printed)
    lines = [line for text in printed for line in text.splitlines()]
    assert [line for line in lines if len(line) > width] == []
    assert [line for line in lines if "…" in line] == []


def test_kubectl_shows_in_80_columns_what_a_person_looks_for_first() -> None:
    """kubectl drops no columns by itself: those that it shows without ``-o wide`` must fit, whatever the phase."""
    cluster = Cluster(*WORLD)
    tables = [_got(kind, cluster) for kind in KINDS]
    check("kubectl-get.txt", tables)
    assert max(len(line) for table in tables for line in table.splitlines()) <= 80


def _got(kind: Kind, cluster: Cluster) -> str:
    columns = [column for column in kind.columns if not column.wide]
    longest = {UPGRADES: max(RolloutPhase, key=len), TASKS: max(TaskPhase, key=len)}
    resource = next(each for each in longest if each.kind == kind.kind)
    rows = [["NAME", *(column.name.upper() for column in columns)]]
    for body in asyncio.run(cluster.kube.list(resource)):
        phase = longest[resource].value
        ready = {"type": "Ready", "reason": phase}  # a rollout that waits has its phase for a reason
        body["status"] = {**body.get("status", {}), "phase": phase, "conditions": [ready]}
        rows.append([body["metadata"]["name"], *(_value(body, column) for column in columns)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    drawn = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return f"$ kubectl get {kind.plural}\n" + "".join(f"{line}\n" for line in drawn) + "\n"


_CONDITION = re.compile(r'conditions\[\?\(@\.type=="(\w+)"\)\]')


def _value(body: Json, column: Column) -> str:
    value: Any = body
    for part in re.split(r"\.(?![^(]*\))", column.path.removeprefix(".")):
        if found := _CONDITION.fullmatch(part):
            value = next((each for each in value.get("conditions", ()) if each["type"] == found[1]), {})
        else:
            value = value.get(part, "") if isinstance(value, dict) else ""
    return since(datetime.fromisoformat(value), NOW) if column.type == "date" and value else str(value)
