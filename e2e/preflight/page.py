"""Write docs/measured/preflight.md from the lines that ``python -m e2e.preflight --json FILE`` has appended.

``python -m e2e.preflight.page FILE``: of several outcomes of one row the last counts.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from e2e.preflight.kinds import ROWS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "measured" / "preflight.md"
HEAD = """# The hazards of preflight, row by row

What `python -m e2e.preflight` printed: every row makes a hazard on a real node, has the node looked at
(`action: Plan`), and takes the hazard away. The check must find it, and no other may. One node with kubelet 1.30.14 and
20 pods (12 in the rows of a transient and of a mounted kubelet), containerd 1.6.20, kube-apiserver 1.33.13; the target
is 1.33.13 unless the message names another one.
[preflight.md](../generated/preflight.md) lists the checks, with those that could not be shown.
"""
PARTS = (
    ("Hazards", "", "A stand-in took the place of kubelets that the lab does not have; it is only examined, not run."),
    (
        "In spite of it",
        "accepted/",
        "The check was accepted, and the upgrade ran: what became of it, and what was lost.",
    ),
    ("Controls", "control/", "Nodes without a hazard: 40 pods of every kind, and no refusal. The rest are warnings."),
)
CELL = 400


def page(outcomes: Iterable[dict[str, Any]]) -> str:
    """Return the page."""
    known = {row.name for row in ROWS}
    last = {each["row"]: each for each in outcomes if each["row"] in known or _prefix(each["row"])}
    parts = [HEAD]
    for title, prefix, explanation in PARTS:
        rows = [_line(each) for name, each in sorted(last.items()) if _prefix(name) == prefix]
        table = ["| row | check | ended | said |", "|---|---|---|---|", *rows]
        parts.append("\n".join((f"## {title}", "", explanation, "", *table, "")))
    return "\n".join(parts)


def _prefix(name: str) -> str:
    return next((prefix for _, prefix, _ in PARTS if prefix and name.startswith(prefix)), "")


def _line(outcome: dict[str, Any]) -> str:
    said = outcome["said"].replace("|", "\\|").replace("<", "&lt;")
    said = said if len(said) <= CELL else f"{said[: CELL - 1]}…"
    wrong = "; ".join(outcome["complaints"])
    ended = f"{outcome['ended']}, `{outcome['reason']}`" if outcome["reason"] else outcome["ended"]
    return f"| {outcome['row']} | `{outcome['shows']}` | {ended} | {f'**{wrong}** ' if wrong else ''}{said} |"


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()))
