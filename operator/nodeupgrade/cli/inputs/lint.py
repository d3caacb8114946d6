"""Offline validation of a NodeUpgrade: finds what the API server and the control plane would reject or warn about."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from nodeupgrade.api.crds import GROUP, VERSION
from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import Json
from nodeupgrade.api.printer_columns import UPGRADE_KIND
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.schema.defaulting import filled, ordered
from nodeupgrade.api.schema.derive import Problem
from nodeupgrade.api.schema.transition_rules import changes
from nodeupgrade.api.schema.unknown_fields import unknown
from nodeupgrade.api.schema.validation import shown, validate
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, PAUSE_ANNOTATION, parse_spec, problems
from nodeupgrade.api.upgrade.spec import SPEC, UpgradeSpec
from nodeupgrade.api.upgrade.waves import REMAINDER
from nodeupgrade.api.upgrade.windows import next_opening
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelethash.changes import supported_minor
from nodeupgrade.kubelethash.errors import UnsupportedKubelet

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")

_NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")


def lint(document: Any, previous: Json | None = None, *, now: datetime | None = None) -> tuple[Finding, ...]:
    """Return all errors and warnings for a NodeUpgrade.

    Args:
        document: The object as JSON; times in it are strings.
        previous: The object that it would replace; if given, edits that would be rejected are errors too.
        now: If given, also report that windows and blackouts leave no time to start a node.
    """
    if not isinstance(document, dict):
        return (_invalid("", f"{shown(document)} is not an object; write a {UPGRADE_KIND.kind}"),)
    if foreign := tuple(_kind(document)):
        return foreign
    spec: Any = document.get("spec")  # unvalidated JSON
    findings = (*_envelope(document), *_findings(unknown(SPEC, spec, "spec")), *_findings(problems(spec)))
    if not is_valid(spec):
        return findings
    return (
        *findings,
        *_misnamed(spec),
        *_meaning(parse_spec(spec), now),
        *_annotations(document, spec),
        *edits(spec, previous),
    )


def _misnamed(spec: Json) -> Iterator[Finding]:
    """Return names that no node can have: Kubernetes rejects such a Node."""
    excluded = spec["nodes"].get("exclude") or {}
    for where, listed in (("nodes", spec["nodes"]), ("nodes.exclude", excluded)):
        for number, name in enumerate(listed.get("names") or ()):
            if _NODE_NAME.fullmatch(name) is None:
                message = f"{name!r} is the name of no node; write one as kubectl get nodes shows it"
                yield _invalid(f"spec.{where}.names[{number}]", message)


def is_valid(spec: Any) -> bool:  # Any: unvalidated JSON
    """Report whether a spec has no errors; it may have warnings."""
    return all(problem.warning for problem in problems(spec))


def edits(spec: Json, previous: Json | None) -> Iterator[Finding]:
    """Return the edits that would be rejected.

    Args:
        spec: A valid spec.
        previous: The object that it would replace; if its spec is invalid, every edit is allowed.
    """
    if previous is not None and is_valid(before := previous.get("spec")):
        changed = changes(SPEC, ordered(SPEC, filled(SPEC, spec)), ordered(SPEC, filled(SPEC, before)), "spec")
        yield from _findings(changed, Reason.SPEC_CHANGE_REJECTED)


def _kind(document: Json) -> Iterator[Finding]:
    expected = {"apiVersion": f"{GROUP}/{VERSION}", "kind": UPGRADE_KIND.kind}
    for field, value in expected.items():
        if document.get(field) != value:
            yield _invalid(field, f"{shown(document.get(field))} is invalid; write {value}")


def _envelope(document: Json) -> Iterator[Finding]:
    for field in document:
        if field not in _TOP:
            yield _invalid(str(field), f"unknown field; the fields here are {', '.join(_TOP)}")
    yield from _findings(validate(UPGRADE_KIND.name, _metadata(document).get("name"), "metadata.name"))


def _metadata(document: Json) -> Json:
    metadata = document.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _meaning(spec: UpgradeSpec, now: datetime | None) -> Iterator[Finding]:
    """Return findings that the schema cannot express: unknown version, no open window, too short a timeout."""
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
    """Return warnings about annotations that have no effect."""
    annotations = _metadata(document).get("annotations") or {}
    known = {REMAINDER, *(wave["name"] for wave in filled(SPEC, spec)["waves"])}
    approved = {name.strip() for name in str(annotations.get(APPROVE_ANNOTATION, "")).split(",")} - {""}
    for name in sorted(approved - known):
        where = f"metadata.annotations[{APPROVE_ANNOTATION}]"
        yield _warning(where, f"{name!r} is not a wave; write names of spec.waves, or {REMAINDER}", Reason.UNKNOWN_WAVE)
    if annotations.get(PAUSE_ANNOTATION, "true") != "true":
        where = f"metadata.annotations[{PAUSE_ANNOTATION}]"
        yield _warning(where, 'only "true" pauses; write that, or remove the annotation')


def _findings(problems: Iterable[Problem], reason: Reason = Reason.INVALID_SPEC) -> Iterator[Finding]:
    """Convert problems that the schema reports to findings."""
    for problem in problems:
        severity = Severity.WARN if problem.warning else Severity.REFUSE
        yield Finding(reason=reason, subject=problem.path, detail=problem.message, severity=severity)


def _invalid(path: str, message: str) -> Finding:
    return Finding(reason=Reason.INVALID_SPEC, subject=path, detail=message)


def _warning(path: str, message: str, reason: Reason = Reason.INVALID_SPEC) -> Finding:
    return Finding(reason=reason, subject=path, detail=message, severity=Severity.WARN)
