"""Generate docs/generated/preflight.md: every check and every hazard, from the checks themselves.

Run ``python -m tools.generate_checks`` after changing a check; ``--check`` only reports whether the page is up to date.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nodeupgrade
from e2e.preflight.shown import NOT_SHOWN, SHOWN
from nodeupgrade.api.reasons import NOTHING_TO_DO, Reason, Severity
from nodeupgrade.check_catalogue import EVERY, AnyCheck
from nodeupgrade.findings.hazards import MET_BY_DESIGN, NOT_COVERED, Hazard
from nodeupgrade.fleet.decide import admission_checks
from nodeupgrade.node.checks import registry
from tools.generate_history import releases
from tools.generated import CHECKOUT, Wanted, main

PACKAGE = Path(nodeupgrade.__file__).parent
DOCS = CHECKOUT / "docs"
PAGE = DOCS / "generated" / "preflight.md"

HEAD = """# Preflight

Generated from the checks themselves; to change it: `make checks`. A node is upgraded only if no check reports a finding
that forbids it. All of them run before anything is touched: in every upgrade, in `action: Plan` and, as far as the API
server alone shows enough, in `nodeupgrade plan`.

What to do about a finding: its message says it, and the tables below; what the reasons mean:
[reference.md](reference.md#all-reasons). If it is known not to matter,
`spec.preflight.accept: [placements_are_met]` makes the findings of that check warnings for this NodeUpgrade.
What was accepted and did find something is in `status.hazards` of the task, in the plan on the node's disk, and in
`status.accepted` of the NodeUpgrade.
[Some checks cannot be accepted](../decisions/checks.md#accepting-a-check); one that only warns may be named, to no
effect.
"""

DEFECTS = """## A release with a known defect

Defects of releases are data. To add one:

1. Find the releases in upstream's changelogs: the first and the last affected one of each series. Leave out what cannot
   be found there.
2. Add an entry to `KNOWN_BAD` in `kubelet/known_defects.py`: what the defect does, the issue or pull request upstream,
   the releases, and what a node must have for it to matter. `release_harms_no_pod` reads that table.
3. If it takes more than one property of a node, make the defect a constant of that module instead, and add a check of
   its own that names it in its `follows`.
4. `make checks history` brings it onto this page and onto [kubelet-history.md](kubelet-history.md).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """Checks that run at one time."""

    title: str
    explanation: str
    checks: tuple[AnyCheck, ...]
    warns: bool = False


PHASES = (
    Phase(
        title="From the API server",
        explanation=(
            "Run by the control plane before a node is claimed and again before it is cordoned. The first finding that "
            "forbids the upgrade decides."
        ),
        checks=(*admission_checks.BEFORE_PODS, *admission_checks.WITH_PODS),
    ),
    Phase(
        title="On the node",
        explanation="Run by the agent on the node. All findings are reported, in this order.",
        checks=registry.CHECKS,
    ),
    Phase(
        title="While planning",
        explanation="Found while the rewriting of hashes is planned; reported after the others.",
        checks=registry.PROOFS,
    ),
    Phase(
        title="Warnings",
        explanation="They forbid nothing; the task and `nodeupgrade plan` show them.",
        checks=(*admission_checks.WARNINGS, *registry.WARNINGS),
        warns=True,
    ),
)


def page() -> str:
    """Return the page's text."""
    phases = ("\n".join(_phase(phase)) for phase in PHASES)
    return "\n".join((HEAD, *phases, *_details(), *_hazards(), DEFECTS, *_facts()))


def _phase(phase: Phase) -> Iterator[str]:
    yield from (f"## {phase.title}", "", phase.explanation, "")
    yield "| check | what holds of a node that passes | severity | reason: remedy | may be accepted | on a real node |"
    yield "|---|---|---|---|---|---|"
    for check in phase.checks:
        severities = (Severity.WARN,) if phase.warns else (reason.severity for reason in check.reasons)
        severity = ", ".join(dict.fromkeys(each.value for each in severities))
        accepted = "only warns" if phase.warns else "yes" if check.acceptable else "no"
        remedies = "<br>".join(map(_remedy, check.reasons))
        yield f"| `{check.name}` | {_plain(check.holds)} | {severity} | {remedies} | {accepted} | {_shown(check)} |"
    yield ""


def _remedy(reason: Reason) -> str:
    told = "" if reason.remedy == NOTHING_TO_DO else f": {reason.remedy}"
    return f"`{reason}`{told}"


def _shown(check: AnyCheck) -> str:
    if rows := SHOWN.get(check.name):
        return "yes: " + ", ".join(rows)
    return f"no: {NOT_SHOWN[check.name]}" if check.name in NOT_SHOWN else "not yet"


def _details() -> Iterator[str]:
    yield from ("## What each check follows", "")
    yield "A check that follows changes of Kubernetes considers the node's old and new version."
    yield from ("", "| check | judges | hazards | versions | upstream |", "|---|---|---|---|---|")
    for check in EVERY:
        versions = "; ".join(dict.fromkeys(releases(fact) for fact in check.follows)) or "all"
        links = ", ".join(dict.fromkeys(f"[{fact.reference}]({fact.link})" for fact in check.follows))
        room = check.room.removeprefix("nodeupgrade.domain.")
        hazards = ", ".join(hazard.name for hazard in check.covers)
        yield f"| `{check.name}` in `{room}` | `{check.facts.__name__}` | {hazards} | {versions} | {links} |"
    yield ""


def _hazards() -> Iterator[str]:
    yield from (
        "## Hazards",
        "",
        "Everything that is known to go wrong in the exchange of a kubelet, and its answer.",
        "",
    )
    yield from ("| hazard | | answer |", "|---|---|---|")
    for hazard in Hazard:
        yield f"| {hazard.name} | {hazard.value} | {_answer(hazard)} |"
    yield ""


def _answer(hazard: Hazard) -> str:
    if answer := MET_BY_DESIGN.get(hazard):
        text, _, name = answer.removesuffix(")").rpartition(" (")
        return f"by design: {text}, see [{name}](../{document(name).relative_to(DOCS)})"
    if hazard in NOT_COVERED:
        return f"**none**: {NOT_COVERED[hazard]}"
    return ", ".join(dict.fromkeys(f"`{check.name}`" for check in EVERY if hazard in check.covers))


def document(name: str) -> Path:
    """Return the page of docs/ or docs/decisions/ with this name."""
    plain = DOCS / f"{name}.md"
    return plain if plain.exists() else DOCS / "decisions" / f"{name}.md"


def _facts() -> Iterator[str]:
    yield from ("## Facts", "", "What the checks judge, and the modules that put it together.", "")
    yield from ("| facts | from |", "|---|---|")
    built = _builders()
    for facts in dict.fromkeys(check.facts.__name__ for check in EVERY):
        yield f"| `{facts}` | {', '.join(f'`{module}`' for module in built[facts])} |"
    yield ""


def _builders() -> dict[str, list[str]]:
    """Return for every class the modules that call it."""
    built = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for name in called:
            built[name].append(module)
    return built


def _plain(text: str) -> str:
    return text.replace("``", "`")


def wanted() -> Wanted:
    """Return the page as it should be."""
    return {PAGE: page()}


if __name__ == "__main__":
    main("tools.generate_checks", __doc__, wanted)
