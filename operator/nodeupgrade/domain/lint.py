"""Says of a NodeUpgrade document, without any cluster, what the API server and the control plane would say of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from nodeupgrade.domain.schema.changes import changes
from nodeupgrade.domain.schema.checking import check, shown
from nodeupgrade.domain.schema.kinds import UPGRADE_KIND
from nodeupgrade.domain.schema.model import GROUP, VERSION, Problem
from nodeupgrade.domain.schema.settling import filled, ordered
from nodeupgrade.domain.schema.unknown import unknown
from nodeupgrade.domain.schema.upgrade_spec import SPEC
from nodeupgrade.domain.upgrade import APPROVE_ANNOTATION, PAUSE_ANNOTATION
from nodeupgrade.domain.upgrade_spec import parse_spec, problems
from nodeupgrade.domain.upgrade_terms import REMAINDER, UpgradeSpec
from nodeupgrade.domain.windows import next_opening
from nodeupgrade.domain.wire import Json
from nodeupgrade.kubelethash.eras import supported_minor
from nodeupgrade.kubelethash.errors import UnsupportedKubelet

_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)
"""From which openings are looked for when nobody says what time it is; which day makes no difference in fifty years."""

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")


def lint(document: Any, previous: Json | None = None, *, now: datetime | None = None) -> tuple[Problem, ...]:
    """Find all that is wrong with a NodeUpgrade.

    Args:
        document: The object as JSON; times are texts in it.
        previous: The object that it would replace, which must be valid; edits that would be rejected are problems too.
        now: If given, windows that lie in the past or under blackouts are found as well.
    """
    if not isinstance(document, dict):
        return (Problem("", f"{shown(document)} is not an object; write a {UPGRADE_KIND.kind}"),)
    envelope = tuple(_envelope(document))
    if any(problem.path in {"apiVersion", "kind"} for problem in envelope):
        return envelope
    spec = document.get("spec")
    found = (*envelope, *unknown(SPEC, spec, "spec"), *problems(spec))
    if any(problem.path.startswith("spec") and not problem.warning for problem in problems(spec)):
        return found
    return (*found, *_meaning(document, parse_spec(spec), now), *edits(spec, (previous or {}).get("spec")))


def _envelope(document: Json) -> Iterator[Problem]:
    expected = {"apiVersion": f"{GROUP}/{VERSION}", "kind": UPGRADE_KIND.kind}
    for field, value in expected.items():
        if document.get(field) != value:
            yield Problem(field, f"{shown(document.get(field))} is not possible; write {value}")
    for field in document:
        if field not in _TOP:
            yield Problem(str(field), f"there is no such field; known are {', '.join(_TOP)}")
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    yield from check(UPGRADE_KIND.name, name, "metadata.name")


def edits(spec: Any, previous: Any) -> Iterator[Problem]:
    """Find what may not be edited in this way between two valid specs; without a previous one, nothing."""
    if previous is None:
        return
    new, old = (ordered(SPEC, filled(SPEC, each)) for each in (spec, previous))
    yield from changes(SPEC, new, old, "spec")


def _meaning(document: Json, spec: UpgradeSpec, now: datetime | None) -> Iterator[Problem]:
    """What only shows when a valid spec is read: unknown versions, windows that never open, idle annotations."""
    try:
        supported_minor(spec.version)
    except UnsupportedKubelet as error:
        yield Problem("spec.version", str(error))
    never = [i for i, window in enumerate(spec.windows) if next_opening((window,), (), _SOME_DAY) is None]
    for index in never:
        yield Problem(f"spec.windows[{index}].start", f"{spec.windows[index].start!r} never comes; write another time")
    if now and not never and next_opening(spec.windows, spec.blackouts, now) is None:
        yield Problem("spec.windows", "no node could ever be started; change the windows or the blackouts")
    annotations = document["metadata"].get("annotations") or {}
    names = {REMAINDER, *(wave.name for wave in spec.waves)}
    approved = [name.strip() for name in str(annotations.get(APPROVE_ANNOTATION, "")).split(",")]
    for name in sorted({name for name in approved if name} - names):
        where = f"metadata.annotations[{APPROVE_ANNOTATION}]"
        yield Problem(where, f"{name!r} is not a wave; write names of spec.waves, or {REMAINDER}", warning=True)
    if annotations.get(PAUSE_ANNOTATION, "true") != "true":
        where = f"metadata.annotations[{PAUSE_ANNOTATION}]"
        yield Problem(where, 'only the value "true" pauses; write it, or take the annotation away', warning=True)
