"""Let each call of the rescue script go wrong in every way, and write down how the node ends.

python -m tools.enumerate_rescue

Takes some ten minutes and writes docs/measured/rescue-calls.jsonl. The test suite runs a part.
"""

import json
import sys
import tempfile
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from tests.builders.rescue_enumeration import SITUATIONS, Situation, calls, ending, faults

FILE = Path("docs/measured/rescue-calls.jsonl")
ABOUT = {
    "title": "Each call of the rescue script that goes wrong",
    "command": "python -m tools.enumerate_rescue",
    "how": "The script runs in a real shell on a node of files: alone, where no copy of the program starts and no "
    "hash was rewritten, and with a spare, where the other copy starts and hashes were rewritten. A call "
    "answers nothing and succeeds (silent), answers nonsense (garbled), fails, hangs until its time limit, or"
    " takes the script along (killed): once, at each place where it is made, and always, until that is "
    "mended; both are shown where they differ. `done`: the old kubelet runs on exactly its own files, or the "
    "other copy has taken over. `still trying`: nothing was started or claimed, and the node is done once the"
    " call works again.",
}


def main() -> int:
    """Write the table; 1 if the script was wrong once."""
    rows = [row for situation in SITUATIONS for row in _rows(situation)]
    about = ABOUT | {"measured": datetime.now(UTC).date().isoformat()}
    FILE.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in (about, *rows)))
    return int("WRONG" in FILE.read_text())


def _rows(situation: Situation) -> list[dict[str, object]]:
    """Return a row for each kind of call, with how it ended by mode; ``once / always`` where that differs."""
    with tempfile.TemporaryDirectory() as directory:
        places = (Path(directory) / str(number) for number in range(10_000))
        made = calls(situation, next(places))
        found: dict[str, dict[str, dict[bool, set[str]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(set)))
        for call, fault in faults(made):
            ended = ending(situation, next(places), fault)
            found[call][fault.mode][bool(fault.command)].add(ended)
            print(f"{situation.name}: {call}, {fault}: {ended}", file=sys.stderr)
    return [
        {"situation": situation.name, "call": call, "places": made.count(call)}
        | {
            mode: " / ".join(dict.fromkeys(_joined(ends[always]) for always in (False, True)))
            for mode, ends in by.items()
        }
        for call, by in found.items()
    ]


def _joined(ends: set[str]) -> str:
    return ", ".join(sorted(ends))


if __name__ == "__main__":
    sys.exit(main())
