"""Generate docs/generated/preflight.md: every check, from the checks themselves.

Run ``python -m tools.generate_checks`` after changing a check; ``--check`` only reports whether the page is up to date.
"""

from collections.abc import Iterator

from nodeupgrade.api.reasons import NOTHING_TO_DO, Reason
from nodeupgrade.check_catalogue import AnyCheck
from nodeupgrade.fleet.decide import admission_checks
from nodeupgrade.node.checks import registry
from tools.generated import CHECKOUT, Wanted, main

PAGE = CHECKOUT / "docs" / "generated" / "preflight.md"

HEAD = """# Preflight

Generated from the checks; to change it: `make checks`. Preflight runs before anything on a node is changed: in every
upgrade, in `action: Plan` and, as far as the API server alone shows enough, in `nodeupgrade plan`. A node is upgraded
only if no check refuses it.

The checks are in the order in which they run: those of the control plane first, then those of the agent on the node.
Checks that *only warn* refuse no node. To upgrade a node in spite of a finding, list the check in
`spec.preflight.accept`, for example `[placements_are_met]`; [some checks cannot be
accepted](../decisions/checks.md#accepting-a-check). For what the reasons mean, see
[reference.md](reference.md#all-reasons).
"""

REFUSING: tuple[AnyCheck, ...] = (
    *admission_checks.BEFORE_PODS,
    *admission_checks.WITH_PODS,
    *registry.CHECKS,
    *registry.PROOFS,
)
WARNING: tuple[AnyCheck, ...] = (*admission_checks.WARNINGS, *registry.WARNINGS)


def page() -> str:
    """Return the page's text."""
    return "\n".join((HEAD, *_table(), ""))


def _table() -> Iterator[str]:
    yield from ("| check | meaning: what holds of a node that passes | remedy | can be accepted |", "|---|---|---|---|")
    for check in REFUSING:
        yield _line(check, "yes" if check.acceptable else "no")
    for check in WARNING:
        yield _line(check, "only warns")


def _line(check: AnyCheck, accepted: str) -> str:
    remedies = "<br>".join(map(_remedy, check.reasons))
    return f"| `{check.name}` | {check.holds.replace('``', '`')} | {remedies} | {accepted} |"


def _remedy(reason: Reason) -> str:
    told = "" if reason.remedy == NOTHING_TO_DO else f": {reason.remedy}"
    return f"`{reason}`{told}"


def wanted() -> Wanted:
    """Return the page as it should be."""
    return {PAGE: page()}


if __name__ == "__main__":
    main("tools.generate_checks", __doc__, wanted)
