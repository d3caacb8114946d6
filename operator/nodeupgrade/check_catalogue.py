"""All checks, of a node and of the rollout, and the names by which ``spec.preflight.accept`` calls them.

Rollouts know nothing of the inside of a node, nor the other way round; only this module knows the checks of both.
"""

from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import NOTHING_TO_DO, Reason
from nodeupgrade.api.upgrade.object import Upgrade, parse_upgrade
from nodeupgrade.api.upgrade.spec import UpgradeSpec
from nodeupgrade.findings.check import Check
from nodeupgrade.findings.finding import Finding
from nodeupgrade.fleet.decide import admission_checks
from nodeupgrade.node.checks import registry

AnyCheck = Check[Any]  # Any: each check has its own facts

ROLLOUT_CHECKS: tuple[AnyCheck, ...] = (
    *admission_checks.BEFORE_PODS,
    *admission_checks.WITH_PODS,
    *admission_checks.WARNINGS,
)
ALL_CHECKS: tuple[AnyCheck, ...] = (*ROLLOUT_CHECKS, *registry.CHECKS, *registry.PROOFS, *registry.WARNINGS)
"""A name may occur twice, if rollout and node ask the same; it is accepted for both."""

_SHOWN = 3


def read_upgrade(body: Json) -> Upgrade:
    """Parse a NodeUpgrade; a name in ``spec.preflight.accept`` that is not possible makes its spec invalid.

    Raises:
        MalformedObjectError: The status, which only the control plane writes, cannot be read.
    """
    upgrade = parse_upgrade(body)
    if upgrade.spec is None or (wrong := next(invalid_accepted_checks(upgrade.spec), None)) is None:
        return upgrade
    return replace(upgrade, spec=None, spec_digest="", problem=str(wrong))


def invalid_accepted_checks(spec: UpgradeSpec) -> Iterator[Finding]:
    """Yield a finding for every name of a check that does not exist or cannot be accepted."""
    for index, name in enumerate(spec.preflight.accept):
        if problem := _problem(name):
            yield Finding(reason=Reason.INVALID_SPEC, subject=f"spec.preflight.accept[{index}]", detail=problem)


def _problem(name: str) -> str:
    called = [check for check in ALL_CHECKS if check.name == name]
    if not called:
        close = get_close_matches(name, dict.fromkeys(check.name for check in ALL_CHECKS if check.acceptable), _SHOWN)
        instead = f"did you mean {' or '.join(close)}?" if close else "docs/generated/preflight.md lists all of them"
        return f"there is no check {name}; {instead}"
    if any(check.acceptable for check in called):
        return ""
    reasons = {reason for check in called for reason in check.reasons}
    remedies = [reason.remedy for reason in reasons if len(reasons) == 1 and reason.remedy != NOTHING_TO_DO]
    instead = f"instead, {remedies[0]}" if remedies else "docs/decisions/checks.md says why"
    return f"{name} cannot be accepted; {instead}"
