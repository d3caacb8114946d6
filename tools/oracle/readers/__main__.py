"""Compare our readers with Go's own over generated texts: ``python -m tools.oracle.readers --number 50000``."""

import base64
import gzip
import json
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from e2e.lab.errors import LabError
from e2e.lab.progress import Lines
from tools.oracle.readers.building import program
from tools.oracle.readers.deviations import deviation_of
from tools.oracle.readers.reading import READERS, Refused, Value, answers, ours

_SHOWN = 10
_AT_ONCE = 5_000
_GOLDEN_SEED, _GOLDEN_TEXTS = 51, 60


def main() -> int:
    """Build Go's readers, compare, and report differences."""
    parser = ArgumentParser(prog="python -m tools.oracle.readers", description=__doc__)
    parser.add_argument("--number", type=int, default=50_000, help="how many texts for each reader (50000)")
    parser.add_argument("--seed", type=int, default=1, help="for the texts (1)")
    parser.add_argument("--reader", action="append", choices=READERS, help="only this one; may be repeated")
    parser.add_argument("--measured", type=Path, metavar="FILE", help="write the counts as data")
    parser.add_argument("--golden", type=Path, metavar="FILE", help="write a few texts and Go's answers instead")
    options = parser.parse_args()
    try:
        go = program(Lines())
        if options.golden:
            _write_golden(options.golden, go)
            return 0
        rows = [_compare(go, name, options.number, options.seed) for name in options.reader or READERS]
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if options.measured:
        _write_measured(options.measured, rows, options.seed)
    return int(any(row["differing"] for row in rows))


def _asked(go: Path, name: str, number: int, seed: int) -> Iterator[tuple[bytes, Value]]:
    """Yield generated texts, each with Go's answer."""
    reader, random = READERS[name], Random(f"{name} {seed}")
    for begin in range(0, number, _AT_ONCE):
        made = (reader.made(random) for _ in range(min(_AT_ONCE, number - begin)))
        texts = [text.encode() if isinstance(text, str) else text for text in made]
        yield from zip(texts, answers(go, reader.kind, texts), strict=True)


def _compare(go: Path, name: str, number: int, seed: int) -> dict[str, Value]:
    alike, both_refuse, known = 0, 0, Counter[str]()
    differing: list[tuple[bytes, Value, Value]] = []
    for text, wanted in _asked(go, name, number, seed):
        read = ours(READERS[name], text)
        if isinstance(read, Refused) and isinstance(wanted, Refused):
            both_refuse += 1
        elif read == wanted:
            alike += 1
        elif (found := deviation_of(name, text, wanted, read)) is not None:
            known[found.what] += 1
        else:
            differing.append((text, wanted, read))
    print(f"{name}: {alike} read alike, {both_refuse} refused by both, {known.total()} known, {len(differing)} differ")
    for text, wanted, read in sorted({each[0]: each for each in differing}.values(), key=lambda each: len(each[0]))[
        :_SHOWN
    ]:
        print(f"  {text!r}: Go {wanted!a}, we {read!a}"[:400])
    counts = {"texts": number, "alike": alike, "refused": both_refuse, "known": dict(known)}
    return {"reader": name, **counts, "differing": len(differing)}


def _write_measured(file: Path, rows: list[dict[str, Value]], seed: int) -> None:
    about = {
        "title": "Our readers beside Go's",
        "measured": f"On {datetime.now(UTC):%Y-%m-%d}",
        "command": f"python -m tools.oracle.readers --seed {seed}",
        "how": "Generated texts, right and almost right, read by our readers and by Kubernetes' own Go modules. "
        "A known difference is one of `tools/oracle/readers/deviations.py`, where its reason is.",
    }
    file.write_text("".join(f"{json.dumps(row)}\n" for row in (about, *rows)), encoding="utf-8")


def _write_golden(file: Path, go: Path) -> None:
    lines = (
        {
            "reader": name,
            "text": base64.b64encode(text).decode(),
            "go": answer.reason if isinstance(answer, Refused) else [answer],
        }
        for name in READERS
        for text, answer in _asked(go, name, _GOLDEN_TEXTS, _GOLDEN_SEED)
    )
    with gzip.GzipFile(file, "wb", mtime=0) as out:
        out.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())


if __name__ == "__main__":
    sys.exit(main())
