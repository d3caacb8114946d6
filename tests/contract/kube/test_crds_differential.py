"""Two judges, one verdict: the API server (OpenAPI and CEL) and the control plane (the same schemas in Python).

Every field is set to values on and beyond each of its bounds, and every field of an existing object is edited.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from nodeupgrade.api.json import Json, merge_patch
from nodeupgrade.api.schema.derive import Schema, Type
from nodeupgrade.api.upgrade.frozen import frozen_digest
from nodeupgrade.api.upgrade.object import problems
from nodeupgrade.api.upgrade.spec import SPEC
from nodeupgrade.cli.inputs.lint import edits
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import UPGRADES, RejectedError
from tests.builders.specs import FULL, OTHER
from tests.builders.variations import at, boundaries, places, replaced
from tests.enumeration import tried
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

PLATFORMS: Json = {**FULL, "artifact": {"platforms": {"linux-amd64": {"url": "https://example/k", "sha256": "a" * 64}}}}
ACCEPTING: Json = {**FULL, "preflight": {"accept": ["pods_fit"]}, "hash": OTHER["hash"]}
PRE_STAGED: Json = {**FULL, "artifact": {"preStaged": {"linux-amd64": {"path": "/kubelet", "sha256": "a" * 64}}}}
TOP = sorted(SPEC.properties)
MISUNDERSTOOD = r"spec\.windows\[\d+\]\.(start|timeZone)"
"""Cron expressions and time zones: no API server knows what they mean."""
ALWAYS_FREE = {"strategy", "windows", "blackouts", "healthChecks", "timeouts", "deletionPolicy", "action"}
ADDITIONS_ONLY = ("spec.nodes.exclude", "spec.approvedWaves", "spec.action")
"""Edits that only the API server can reject: they leave no trace in the object, and do no harm without it."""


def described(spec: Json, field: str) -> list[tuple[str, Json]]:
    """One spec for each value that one place inside the field may be changed to, and one where it is missing."""
    found: list[tuple[str, Json]] = []
    for path, schema, value in places(SPEC, spec):
        if path[0] == field:
            found += [(f"{path} = {new!r:.60}", replaced(spec, path, new)) for new in boundaries(schema, value)]
            found.append((f"{path} missing", replaced(spec, path, None)))
    return found


async def verdicts(admin: KubeClient, name: str, specs: Iterable[tuple[str, Json]]) -> list[str]:
    """Where the two judges do not agree; each of them must have said yes and no."""
    gate, seen = asyncio.Semaphore(16), set[bool]()

    async def judge(number: int, what: str, spec: Json) -> str:
        async with gate:
            theirs = await accepted(admin, f"{name}-{number}", spec)
        ours = problems(spec)
        seen.add(theirs)
        if theirs == (not ours) or (theirs and all(re.fullmatch(MISUNDERSTOOD, problem.path) for problem in ours)):
            return ""
        return f"{what}: API server {'accepts' if theirs else 'rejects'}; we: {'; '.join(map(str, ours)) or 'accept'}"

    told = await asyncio.gather(*(judge(number, what, spec) for number, (what, spec) in enumerate(specs)))
    assert seen == {True, False}
    return [line for line in told if line]


async def accepted(admin: KubeClient, name: str, spec: Json) -> bool:
    body = {**upgrade_object(name), "spec": spec}
    try:
        await admin.create(UPGRADES, body)
    except RejectedError:
        return False
    await admin.delete(UPGRADES, name)
    return True


def test_the_specs_use_every_field() -> None:
    """Else the tests below would not see a field that is added."""
    assert list(unused(SPEC, [FULL, PLATFORMS, PRE_STAGED, ACCEPTING], "spec")) == []


def unused(schema: Schema, values: list[Any], path: str) -> Iterator[str]:
    """Fields that none of the values has."""
    if not values:
        yield path
    for name, child in schema.properties.items():
        yield from unused(child, [value[name] for value in values if name in value], f"{path}.{name}")
    if schema.items is not None:
        inside = (value.values() if schema.type is Type.MAP else value for value in values)
        yield from unused(schema.items, [item for items in inside for item in items], path)


@pytest.mark.parametrize("field", TOP)
async def test_bounds(admin: KubeClient, field: str) -> None:
    specs = {"artifact": [FULL, PLATFORMS, PRE_STAGED], "preflight": [ACCEPTING], "hash": [ACCEPTING]}.get(
        field, [FULL]
    )
    mutants = [mutant for spec in specs for mutant in described(spec, field)]
    assert len(mutants) > 10
    assert await verdicts(admin, f"bounds-{field.lower()}", tried(mutants, 1 + len(mutants) // 40)) == []


def edited(field: str) -> Iterator[tuple[str, Json]]:
    """FULL with one place changed to what OTHER has there, taken away, or grown by what OTHER has more; all valid."""
    for path, _, value in places(SPEC, FULL):
        if path[0] != field:
            continue
        new = at(OTHER, path)
        changed = [None, new] if new is not None and new != value else [None]
        if isinstance(value, list) and isinstance(new, list):
            changed += [value + new, new + value, value[::-1]]
        for each in changed:
            spec = replaced(FULL, path, each)
            if not problems(spec):
                yield f"{path} = {each!r:.80}", spec


@pytest.mark.parametrize("field", TOP)
async def test_edits(admin: KubeClient, field: str) -> None:
    """What the API server rejects, lint does; what it cannot be asked about, the digest tells."""
    name = f"edits-{field.lower()}"
    stored = await admin.create(UPGRADES, {**upgrade_object(name), "spec": FULL})
    told, rejected = [], 0
    for what, spec in edited(field):
        found = tuple(edits(spec, {"spec": FULL}))
        try:
            await admin.merge(UPGRADES, name, {"spec": merge_patch(stored["spec"], spec)}, dry_run=True)
        except RejectedError as error:
            rejected += 1
            told += [] if found else [f"{what}: only the API server rejects: {error}"]
            told += [] if all(finding.detail in str(error) for finding in found) else [f"{what}: {found}, not {error}"]
        else:
            told += [f"{what}: only we reject: {found}"] if found else []
        changed = frozen_digest(spec) != frozen_digest(FULL)
        free = all(finding.subject.startswith(ADDITIONS_ONLY) for finding in found)
        told += [f"{what}: digest {'changes' if changed else 'stays'}; {found}"] if changed == free else []
    await admin.delete(UPGRADES, name)
    assert told == []
    assert bool(rejected) == (field not in ALWAYS_FREE)
