"""Tests for what `nodeupgrade check` says of the admission policies."""

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cli.commands.check import FOUR_EYES, POLICIES, State, _policies
from nodeupgrade.cluster.kube_api import (
    ADMISSION_POLICIES,
    ADMISSION_POLICY_BINDINGS,
    CONFIGMAPS,
    ForbiddenError,
    Resource,
)
from nodeupgrade.fleet.guard.parameters import INSTALLED_IN
from nodeupgrade.fleet.guard.requirement import GUARD_NAME
from tests.doubles.kube import InMemoryKube

PARTS = (ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS)
DEFAULT = tuple(name for name in POLICIES if name != FOUR_EYES)


async def installed(*lacking: tuple[Resource, str], policies: tuple[str, ...] = DEFAULT) -> InMemoryKube:
    kube = InMemoryKube(version="v1.34.2")
    await kube.create(CONFIGMAPS.within(INSTALLED_IN), {"metadata": {"name": GUARD_NAME, "namespace": INSTALLED_IN}})
    for name in policies:
        for part in PARTS:
            if (part, name) not in lacking:
                await kube.create(part, {"metadata": {"name": name}, "spec": {"validationActions": ["Deny"]}})
    return kube


async def test_all_of_them_are_there() -> None:
    state, message = await _policies(await installed())
    assert (state, message) == (
        State.OK,
        "the readiness guard, the fence of the operator and the identity of agents are installed",
    )


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.kind)
@pytest.mark.parametrize("name", POLICIES)
async def test_each_part_that_is_missing_is_named(part: Resource, name: str) -> None:
    state, message = await _policies(await installed((part, name), policies=tuple(POLICIES)))
    assert (state, message) == (
        State.PROBLEM,
        f"{name} lacks its {part.kind}; apply {POLICIES[name]}, or upgrade the chart",
    )


async def test_all_that_are_missing_are_named() -> None:
    state, message = await _policies(await installed(policies=()))
    assert state is State.PROBLEM
    both = "lacks its ValidatingAdmissionPolicy and its ValidatingAdmissionPolicyBinding"
    assert [f"{name} {both}" in message for name in DEFAULT] == [True] * 4
    assert FOUR_EYES not in message, "nobody has asked for it"


async def test_parameters_that_the_user_may_not_read_are_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = await installed()
    before = kube.get

    async def get(resource: Resource, name: str) -> Json:
        if resource.plural == CONFIGMAPS.plural:
            raise ForbiddenError("not for you")
        return await before(resource, name)

    monkeypatch.setattr(kube, "get", get)
    assert await _policies(kube) == (State.UNKNOWN, f"you cannot get configmaps in {INSTALLED_IN}")


async def test_a_binding_that_only_warns_is_none() -> None:
    kube = await installed()
    name = "agent-identity.nodeupgrade.dev"
    await kube.delete(ADMISSION_POLICY_BINDINGS, name)
    await kube.create(ADMISSION_POLICY_BINDINGS, {"metadata": {"name": name}, "spec": {"validationActions": ["Audit"]}})
    state, message = await _policies(kube)
    assert (state, "lacks its ValidatingAdmissionPolicyBinding" in message) == (State.PROBLEM, True)


async def test_one_that_was_added_is_told() -> None:
    assert (await _policies(await installed(policies=tuple(POLICIES))))[1].endswith(
        "and who creates a NodeUpgrade may not approve it"
    )
