"""Admission: may this spec be acted upon, and may this node be upgraded now? The first check that objects decides.

The checks of a node run before anything is written or cordoned, and once more before the node's task is started.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.task.spec import TaskArtifact
from nodeupgrade.api.upgrade.frozen import change_rejected
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.api.upgrade.windows import next_opening
from nodeupgrade.findings.check import ask
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide.admission_checks import BEFORE_PODS, WARNINGS, WITH_PODS
from nodeupgrade.fleet.decide.candidate import Candidate
from nodeupgrade.fleet.decide.request_checks import unsupported_skew
from nodeupgrade.kubelet.supported import unsupported_version
from nodeupgrade.kubelet.version_skew import is_newer_than_server
from nodeupgrade.sources.allowlist import Allowed, forbidden


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a NodeUpgrade."""

    upgrade: Upgrade
    spec: UpgradeSpec
    now: datetime  # wall-clock time, UTC
    allowed: Allowed | None  # what the operator's configuration allows; None if it is not known


def accept(upgrade: Upgrade, now: datetime, allowed: Allowed | None = None) -> UpgradeSpec | Finding:
    """Return the spec, or why it is not acted upon; correcting it is enough to continue. For arguments, see Request."""
    if (spec := upgrade.spec) is None:
        return Finding(reason=Reason.INVALID_SPEC, detail=upgrade.problem)
    request = Request(upgrade=upgrade, spec=spec, now=now, allowed=allowed)
    return next((found for rule in OF_SPEC if (found := rule(request)) is not None), spec)


def objection_to_change(upgrade: Upgrade) -> Finding | None:
    """Return why a spec is not the one that was accepted; ``None`` if it is, or if none was accepted yet."""
    if upgrade.spec is None:
        return Finding(reason=Reason.INVALID_SPEC, detail=upgrade.problem)
    accepted = upgrade.status.accepted_spec_digest
    if not accepted or accepted == upgrade.spec_digest:
        return None
    return Finding(reason=Reason.SPEC_CHANGE_REJECTED, detail=change_rejected(), remedy="")


def spec_is_unchanged(request: Request) -> Finding | None:
    """Fields that are frozen once the spec is accepted have not changed."""
    return objection_to_change(request.upgrade)


def configuration_allows_it(request: Request) -> Finding | None:
    """The operator's configuration allows the artifact, files and hooks of the spec, for every platform."""
    spec, allowed = request.spec, request.allowed
    if allowed is None:
        return None
    platforms = {**(spec.artifact.platforms or {}), **(spec.artifact.pre_staged or {})} or {"": None}
    artifacts = (TaskArtifact.of(spec.artifact, platform) for platform in platforms)
    hooks = (hook.template for hook in (*spec.hooks.before, *spec.hooks.after))
    problems = (
        *(f"the hook {template}" for template in hooks if template not in allowed.hooks),
        *(forbidden(each, spec.kubelet.unit, spec.files, allowed) for each in artifacts),
    )
    if (problem := next(filter(None, problems), None)) is None:
        return None
    return Finding(reason=Reason.NOT_ALLOWED, detail=f"the operator's configuration does not allow {problem}")


def version_is_known(request: Request) -> Finding | None:
    """The hashes of the version can be computed."""
    unknown = unsupported_version(request.spec.version)
    return None if unknown is None else Finding(reason=Reason.UNSUPPORTED_VERSION, detail=unknown)


def some_window_opens(request: Request) -> Finding | None:
    """Windows and blackouts leave a moment to start a node."""
    if next_opening(request.spec.windows, request.spec.blackouts, request.now) is not None:
        return None
    detail = "spec.windows and spec.blackouts leave no moment to start a node in the next ten years"
    return Finding(reason=Reason.WINDOW_NEVER_OPENS, detail=detail)


OF_SPEC: tuple[Callable[[Request], Finding | None], ...] = (
    spec_is_unchanged,
    configuration_allows_it,
    version_is_known,
    some_window_opens,
)


def judge(candidate: Candidate) -> Finding | None:
    """Return the first finding that forbids the upgrade, of the checks whose facts are known; None if none does."""
    return next((finding for finding in findings(candidate) if finding.forbids), None)


def findings(candidate: Candidate) -> list[Finding]:
    """Return the findings of checks whose facts are known, up to the first check that forbids the upgrade."""
    all_found, accepted = list[Finding](), candidate.spec.preflight.accept
    for check in BEFORE_PODS if candidate.pods is None else (*BEFORE_PODS, *WITH_PODS):
        if found := check(candidate, accepted):
            all_found.extend(found)
            if any(finding.forbids for finding in found):
                return all_found
    if candidate.pods is None and candidate.objection is not None:
        all_found.append(candidate.objection)
    return all_found


def warnings(candidate: Candidate) -> tuple[Finding, ...]:
    """Return warnings about an upgrade that is admitted nevertheless; first those of checks that may forbid it."""
    return (
        *(finding for finding in findings(candidate) if not finding.forbids),
        *_of_skew(candidate),
        *ask(WARNINGS, candidate),
    )


def _of_skew(candidate: Candidate) -> tuple[Finding, ...]:
    if (detail := unsupported_skew(candidate)) is None:
        return ()
    if is_newer_than_server(candidate.target, candidate.server):
        return (Finding(reason=Reason.VERSION_SKEW, detail=detail, severity=Severity.WARN),)
    return (Finding(reason=Reason.VERSION_SKEW_REMAINS, detail=detail),)
