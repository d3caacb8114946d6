"""On a narrow screen whole columns go; what is left is complete, wrapped at worst."""

import asyncio
import re

import pytest

from nodeupgrade.api.crds import Kind
from nodeupgrade.api.printer_columns import KINDS
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.status import RolloutPhase
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES
from tests.golden.cli.cluster import FILES, HERE, NOW, WORLD, Cluster, check
from tools import kubectl_get

MILLISECONDS = re.compile(r"\d:\d\d\.\d+|(?<![\w.])\d+\.\d{3,}(?![\w.])|\b\d+ ?ms\b")
"""Fractions of a second in a time, a number with three decimals, or milliseconds by name."""
FOR_PROGRAMS = re.compile(r"^\$ .* -o (?:json|yaml)\b")

SCREENS = (
    "status",
    "status kubelet-1-33-13",
    "failures kubelet-1-33-13",
    "explain-node web-a-1",
    "evidence web-c-1",
    "plan databases.yaml --nodes",
)


def test_age_and_reason_stay_on_the_narrowest_screen() -> None:
    check("width-60.txt", [Cluster(*WORLD).run("nodeupgrade status", width="60")])


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
    longest = {UPGRADES: max(RolloutPhase, key=len), TASKS: max(TaskPhase, key=len)}
    resource = next(each for each in longest if each.kind == kind.kind)
    bodies = asyncio.run(cluster.kube.list(resource))
    for body in bodies:
        phase = longest[resource].value
        ready = {"type": "Ready", "reason": phase}  # a rollout that waits has its phase for a reason
        body["status"] = {**body.get("status", {}), "phase": phase, "conditions": [ready]}
    drawn = kubectl_get.table(kind, bodies, NOW)
    return f"$ kubectl get {kind.plural}\n" + "".join(f"{line}\n" for line in drawn) + "\n"


def test_no_milliseconds_are_shown_to_people() -> None:
    printed = [
        text
        for path in HERE.glob("*.txt")
        for text in re.split(r"^(?=\$ )", path.read_text("utf-8"), flags=re.MULTILINE)
    ]
    assert [found for text in printed if not FOR_PROGRAMS.match(text) for found in MILLISECONDS.findall(text)] == []
    assert MILLISECONDS.findall("T09:40:01.246Z, 7.260, 12 ms, but not 1.33.13, 0.9 or 1.7.24") == [
        "0:01.246", "7.260", "12 ms",
    ]  # fmt: skip
