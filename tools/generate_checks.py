"""Generate docs/checks.md: every check, its facts and reasons, and the Kubernetes changes that it follows.

Run ``python -m tools.generate_checks`` after changing a check; ``--check`` only reports whether the page is up to date.
"""

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nodeupgrade
from nodeupgrade.api.reasons import Severity
from nodeupgrade.domain.check import Check
from nodeupgrade.domain.node.checks import registry
from nodeupgrade.domain.rollout.select import admission
from tools.generate_history import releases

PACKAGE = Path(nodeupgrade.__file__).parent
PAGE = Path(__file__).resolve().parent.parent / "docs" / "checks.md"

HEAD = """# Checks

Generated from the checks themselves; to change it: `make checks`. A node is upgraded only if no check reports a finding
that forbids it. All of them run before anything is touched, in every upgrade, in `action: Plan` and, as far as the API
server alone shows enough, in `nodeupgrade plan`. What the reasons mean and what to do:
[reference.md](reference.md#all-reasons). What changed between releases of Kubernetes:
[kubelet-history.md](kubelet-history.md). A check that follows such changes lists their releases here, and considers the
node's old and new version; one that lists none concerns every version.
"""

AnyCheck = Check[Any]  # Any: each check has its own facts

SECTIONS: tuple[tuple[str, str, tuple[AnyCheck, ...]], ...] = (
    (
        "From the API server",
        "Run by the control plane before a node is claimed and again before it is cordoned. The first finding decides.",
        (*admission.BEFORE_PODS, *admission.WITH_PODS),
    ),
    (
        "On the node",
        "Run by the agent on the node. All findings are reported, in this order.",
        registry.CHECKS,
    ),
    ("While planning", "Found while the rewriting of hashes is planned; reported after the others.", registry.PROOFS),
    (
        "Warnings",
        "They forbid nothing; the task and `nodeupgrade plan` show them.",
        (*admission.WARNINGS, *registry.WARNINGS),
    ),
)


def every() -> tuple[AnyCheck, ...]:
    """Return all checks."""
    return tuple(check for _, _, checks in SECTIONS for check in checks)


def page() -> str:
    """Return the page's text."""
    return "\n".join((HEAD, *("\n".join(_section(*section)) for section in SECTIONS), *_facts()))


def _facts() -> Iterator[str]:
    yield from ("## Facts", "", "What the checks judge, and the modules that put it together.", "")
    yield from ("| facts | from |", "|---|---|")
    built = _builders()
    for facts in dict.fromkeys(check.facts for check in every()):
        yield f"| `{facts}` | {', '.join(f'`{module}`' for module in built[facts])} |"
    yield ""


def _builders() -> dict[str, list[str]]:
    """Return for every class the modules that call it, apart from doubles."""
    built = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        called = {
            node.func.id
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for name in called if not module.startswith("simulation/") else ():
            built[name].append(module)
    return built


def _section(title: str, explanation: str, checks: Iterable[AnyCheck]) -> Iterator[str]:
    head = "| check | what holds | facts | reason | severity | versions | upstream |"
    yield from (f"## {title}", "", explanation, "", head, "|---|---|---|---|---|---|---|")
    warns = title == "Warnings"
    for check in checks:
        reasons = ", ".join(f"`{reason}`" for reason in check.reasons)
        severities = (Severity.WARN,) if warns else (reason.severity for reason in check.reasons)
        severity = ", ".join(dict.fromkeys(each.value for each in severities))
        versions = "; ".join(dict.fromkeys(releases(fact) for fact in check.follows)) or "all"
        links = dict.fromkeys(f"[{fact.reference}]({fact.link})" for fact in check.follows)
        room = check.room.removeprefix("nodeupgrade.domain.")
        yield (
            f"| `{check.name}` in `{room}` | {check.holds.replace('``', '`')} | `{check.facts}` | {reasons} | "
            f"{severity} | {versions} | {', '.join(links)} |"
        )
    yield ""


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    if parser.parse_args().check:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
