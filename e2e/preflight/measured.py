"""Write docs/measured/preflight.jsonl from the lines that ``python -m e2e.preflight --json FILE`` has appended.

``python -m e2e.preflight.measured FILE``: of several outcomes of one row the last counts. ``make measured`` brings them
onto the page.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from e2e.preflight.kinds import ROWS

DATA = Path(__file__).resolve().parents[2] / "docs" / "measured" / "preflight.jsonl"
KINDS = ("accepted", "control")
"""What the names of rows begin with that show no hazard."""
MOST = 400
"""Characters of a message that are kept."""


def rows(outcomes: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield a row for each outcome that counts: hazards first."""
    known = {row.name for row in ROWS}
    last = {each["row"]: each for each in outcomes if each["row"] in known or _kind(each["row"]) in KINDS}
    for kind in ("hazard", *KINDS):
        for name, outcome in sorted(last.items()):
            if _kind(name) == kind:
                fields = {"kind": kind, "row": name, "check": outcome["shows"], "ended": outcome["ended"]}
                fields |= {"reason": outcome["reason"], "said": _short(outcome["said"])}
                fields |= {"complaints": list(outcome["complaints"])}
                yield {key: value for key, value in fields.items() if value}


def _kind(name: str) -> str:
    first = name.partition("/")[0]
    return first if first in KINDS else "hazard"


def _short(said: str) -> str:
    return said if len(said) <= MOST else f"{said[: MOST - 1]}…"


def write(outcomes: Iterable[dict[str, Any]]) -> None:
    """Replace the rows of the file; its first line, which says how they were measured, stays."""
    first = DATA.read_text(encoding="utf-8").partition("\n")[0]
    lines = (json.dumps(row, ensure_ascii=False) for row in rows(outcomes))
    DATA.write_text("".join(f"{line}\n" for line in (first, *lines)), encoding="utf-8")


if __name__ == "__main__":
    write(json.loads(line) for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines())
