"""Says of a NodeUpgrade document, without any cluster, what the API server and the control plane would say of it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from nodeupgrade.api.crds import UPGRADE_KIND
from nodeupgrade.api.durations import render_duration
from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.schema.changes import changes
from nodeupgrade.api.schema.defaulting import filled, ordered
from nodeupgrade.api.schema.model import Problem
from nodeupgrade.api.schema.openapi import GROUP, VERSION
from nodeupgrade.api.schema.unknown import unknown
from nodeupgrade.api.schema.validation import shown, validate
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, PAUSE_ANNOTATION
from nodeupgrade.api.upgrade.reading import parse_spec, problems
from nodeupgrade.api.upgrade.spec import SPEC, UpgradeSpec
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.upgrade.windows import next_opening
from nodeupgrade.domain.finding import Finding
from nodeupgrade.kubelethash.eras import supported_minor
from nodeupgrade.kubelethash.errors import UnsupportedKubelet

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")


def lint(document: Any, previous: Json | None = None, *, now: datetime | None = None) -> tuple[Finding, ...]:
    """Find all that is wrong with a NodeUpgrade.

    Args:
        document: The object as JSON; times are texts in it.
        previous: The object that it would replace: edits that would be rejected are problems too.
        now: If given, it is also found that blackouts leave no window.
    """
    if not isinstance(document, dict):
        return (_invalid("", f"{shown(document)} is not an object; write a {UPGRADE_KIND.kind}"),)
    if foreign := tuple(_kind(document)):
        return foreign
    spec: Any = document.get("spec")  # JSON that nobody has checked yet
    found = (*_envelope(document), *_told(unknown(SPEC, spec, "spec")), *_told(problems(spec)))
    if not is_valid(spec):
        return found
    return (*found, *_meaning(parse_spec(spec), now), *_annotations(document, spec), *edits(spec, previous))


def is_valid(spec: Any) -> bool:  # Any: JSON that nobody has checked yet
    """Whether a spec can be worked with; there may be warnings."""
    return all(problem.warning for problem in problems(spec))


def edits(spec: Json, previous: Json | None) -> Iterator[Finding]:
    """Find what may not be edited in this way.

    Args:
        spec: A valid spec.
        previous: The object it would be the spec of; if that is invalid, it may be edited in any way.
    """
    if previous is not None and is_valid(before := previous.get("spec")):
        changed = changes(SPEC, ordered(SPEC, filled(SPEC, spec)), ordered(SPEC, filled(SPEC, before)), "spec")
        yield from _told(changed, Reason.SPEC_CHANGE_REJECTED)


def _kind(document: Json) -> Iterator[Finding]:
    expected = {"apiVersion": f"{GROUP}/{VERSION}", "kind": UPGRADE_KIND.kind}
    for field, value in expected.items():
        if document.get(field) != value:
            yield _invalid(field, f"{shown(document.get(field))} is not possible; write {value}")


def _envelope(document: Json) -> Iterator[Finding]:
    for field in document:
        if field not in _TOP:
            yield _invalid(str(field), f"there is no such field; known are {', '.join(_TOP)}")
    yield from _told(validate(UPGRADE_KIND.name, _metadata(document).get("name"), "metadata.name"))


def _metadata(document: Json) -> Json:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _meaning(spec: UpgradeSpec, now: datetime | None) -> Iterator[Finding]:
    """Find what only shows when a valid spec is read: an unknown version, and windows that never open."""
    try:
        supported_minor(spec.version)
    except UnsupportedKubelet as error:
        yield Finding(reason=Reason.UNSUPPORTED_VERSION, subject="spec.version", detail=str(error))
    if now is not None and next_opening(spec.windows, spec.blackouts, now) is None:
        message = "they leave no moment to start a node in the next ten years; change the blackouts or the windows"
        yield Finding(reason=Reason.WINDOW_NEVER_OPENS, subject="spec.blackouts", detail=message)
    settle = spec.verify.settle
    if spec.timeouts.node <= settle:
        lasting = render_duration(settle)
        message = f"no node can be finished in time, for verify.settle alone takes {lasting}; write more than that"
        yield _warning("spec.timeouts.node", message)


def _annotations(document: Json, spec: Json) -> Iterator[Finding]:
    """Find annotations that have no effect."""
    annotations = _metadata(document).get("annotations") or {}
    known = {REMAINDER, *(wave["name"] for wave in filled(SPEC, spec)["waves"])}
    approved = {name.strip() for name in str(annotations.get(APPROVE_ANNOTATION, "")).split(",")} - {""}
    for name in sorted(approved - known):
        where = f"metadata.annotations[{APPROVE_ANNOTATION}]"
        yield _warning(where, f"{name!r} is not a wave; write names of spec.waves, or {REMAINDER}", Reason.UNKNOWN_WAVE)
    if annotations.get(PAUSE_ANNOTATION, "true") != "true":
        where = f"metadata.annotations[{PAUSE_ANNOTATION}]"
        yield _warning(where, 'only "true" pauses; write that, or take the annotation away')


def _told(problems: Iterable[Problem], reason: Reason = Reason.INVALID_SPEC) -> Iterator[Finding]:
    """What the schema finds, among everything else that is found."""
    for problem in problems:
        severity = Severity.WARN if problem.warning else Severity.REFUSE
        yield Finding(reason=reason, subject=problem.path, detail=problem.message, severity=severity)


def _invalid(path: str, message: str) -> Finding:
    return Finding(reason=Reason.INVALID_SPEC, subject=path, detail=message)


def _warning(path: str, message: str, reason: Reason = Reason.INVALID_SPEC) -> Finding:
    return Finding(reason=reason, subject=path, detail=message, severity=Severity.WARN)
