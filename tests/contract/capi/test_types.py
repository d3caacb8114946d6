"""Requests and answers, read strictly by Cluster API's own types; and what it makes of the answers."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from e2e.lab.process import run
from nodeupgrade.api.json import Json
from nodeupgrade.capi.answers import Done, Failed, Waiting, updating
from nodeupgrade.capi.extension import Extension
from nodeupgrade.capi.requests import Hook, can_update_machine, can_update_machine_set, update_machine
from tests.builders import cluster_api
from tests.builders.cluster_api import NEW, OLD, ROLLOUTS, spec
from tests.contract.go_program import GoProgram, built, have
from tests.doubles.kube import InMemoryKube

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

HOOKS = GoProgram(Path(__file__).parent / "hooks")
READERS: dict[Hook, Callable[[Any], Any]] = {
    Hook.CAN_UPDATE_MACHINE: can_update_machine,
    Hook.CAN_UPDATE_MACHINE_SET: can_update_machine_set,
    Hook.UPDATE_MACHINE: update_machine,
}
VERSIONS = (None, OLD, NEW, "v1.29.0", "v1.33.13+k3s1", "v1.99.0")


def told(questions: list[tuple[Hook, Json, Json]]) -> list[Json]:
    """What Cluster API's types say, in the order of the questions."""
    asked = [{"hook": hook.value, "request": request, "answer": answer} for hook, request, answer in questions]
    found: list[Json] = json.loads(run(built(HOOKS), stdin=json.dumps(asked), timeout=120).stdout)
    assert [each.get("error", "") for each in found] == [""] * len(asked)
    return found


async def answered(hook: Hook, request: Json) -> Json:
    kube = InMemoryKube()
    extension = Extension(kube, kube, lambda: ROLLOUTS, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    return await extension.answer(hook, json.dumps(request).encode())


def changes() -> list[tuple[Hook, Json]]:
    """Changes of the version, of another field, of both, and of a control plane."""
    found: list[tuple[Hook, Json]] = []
    of: tuple[dict[str, Any], ...] = ({}, {"control_plane": True}, {"deployment": None})
    for before, after, domain, whose in product(VERSIONS, VERSIONS, ("a", "b"), of):
        old, new = spec(before), spec(after, failureDomain=domain)
        found.append((Hook.CAN_UPDATE_MACHINE_SET, cluster_api.can_update_machine_set(old, new, **whose)))
        found.append((Hook.CAN_UPDATE_MACHINE, cluster_api.can_update_machine(old, new, **whose)))
    return found


async def test_cluster_api_updates_in_place_what_was_agreed_to_and_nothing_else() -> None:
    have(HOOKS)
    questions = [(hook, request, await answered(hook, request)) for hook, request in changes()]
    agreed = 0
    for (hook, request, answer), said in zip(questions, told(questions), strict=True):
        change, patched = READERS[hook](request), any(name.endswith("Patch") for name in answer)
        agreed += patched
        assert READERS[hook](said["request"]) == change, "as Cluster API itself writes it"
        same = change.current == change.desired and not change.others
        assert said["inPlace"] == (patched or same)
        minors = {OLD, "v1.29.0"}
        assert not patched or (change.current in minors and change.desired == NEW and not change.others)
    assert agreed == 4


async def test_each_answer_to_an_update_is_understood() -> None:
    have(HOOKS)
    request = cluster_api.update_machine("m")
    answers = [updating(each) for each in (Done(), Waiting("in flight"), Failed("a person is needed"))]
    said = told([(Hook.UPDATE_MACHINE, request, each) for each in answers])
    assert [each["retry"] for each in said] == [0, 15, 0]
    assert [each["answer"]["status"] for each in said] == ["Success", "Success", "Failure"]
    assert said[2]["answer"]["message"] == "a person is needed"
    assert update_machine(said[0]["request"]) == update_machine(request)


async def test_discovery_is_understood() -> None:
    have(HOOKS)
    request = {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "kind": "DiscoveryRequest"}
    ((said),) = told([(Hook.DISCOVERY, request, await answered(Hook.DISCOVERY, request))])
    found = {each["requestHook"]["hook"] for each in said["answer"]["handlers"]}
    assert found == {hook.value for hook in READERS}
