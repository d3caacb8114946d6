"""Inputs that nobody should give to the command line, made at random but the same for the same seed.

    python -m tests.fuzz.bad_inputs 5000

runs so many in this process and prints how they ended, how long the longest took, and how much memory was needed.
"""

import copy
import json
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import yaml
from click.testing import CliRunner

from nodeupgrade.cli.main import main
from nodeupgrade.kubelethash import NEWEST_MINOR
from tests.golden.cli.cluster import FILES, HERE

COMMANDS = (
    f"hash --kubelet-version 1.5,1.14,1.30,1.{NEWEST_MINOR} --pods -",
    "hash --kubelet-version 1.12 --pods - -o json",
    "explain --from 1.15 --to 1.33 --pods -",
    "explain --from 1.30 --to 1.33 --pods - -o yaml",
    "explain --from 1.33 --to 1.20 --pods - -o json",
    "explain --from 1.15 --to 1.31 --to 1.33 --pods -",
    "explain --from 1.15 --to 1.33 --pods - -o csv",
    "lint -",
    "lint - -o json",
    "verify --containers - --pods PODS",
    "verify --containers CONTAINERS --pods - -o json",
)
MOST_SECONDS = 5.0
MOST_MEGABYTES = 300
_LARGEST = 1_000_000

_GOOD = (
    (HERE / "pods.yaml").read_text(encoding="utf-8"),
    (FILES / "wrong.yaml").read_text(encoding="utf-8"),
    (FILES / "inspected.json").read_text(encoding="utf-8"),
    json.dumps(yaml.safe_load((HERE / "objects" / "pods.yaml").read_text(encoding="utf-8"))),
)
_ODD = (
    "0x_", "0b_", "=", "<<", "~", "!!binary x", "!!set {a}", "!!python/name:os.system", "*a", "&a x", "1:30",
    ".nan", "-.inf", "9" * 5000, "-0", "1e999", "NaN", "Infinity", "\x00", "\x07", "\ufeff", "\udc80", "\u2028",
    "2026-02-31", "0o7", "08", "? ", "true", "null", "[]", "{}", "- ", "%TAG ! x", "--- ", "...", "\t", "{", "]", "'",
    '"', "0" * 1600 + "x", "1" + "0" * 500 + "Gi", "1e2147483648", "💥", "\b", "\f", "<&>", "RestartContainer",
    "Deployment", "List", "PodList", "kubernetes.io/config.mirror",
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**63, 2**70, 1.5, 1e400, "", "x", [], {}, [[]], [None], {"": None}, {"a": {"b": []}},
    "0" * 1600, "1.5Gi", "٣", "\b", "\ud800", "100m", ["a", 1], {"limits": {"cpu": 1.5}}, "Always", "RestartContainer",
    {"running": []},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BadInput:
    """A command line and what is written to its standard input."""

    arguments: tuple[str, ...]
    given: bytes


def bad_inputs(number: int, seed: int = 0) -> Iterator[BadInput]:
    """Make so many; every kind comes again and again."""
    random = Random(seed)
    files = {"PODS": str(FILES / "node-pods.yaml"), "CONTAINERS": str(FILES / "inspected.json")}
    for each in range(number):
        command = random.choice(COMMANDS)
        make = _KINDS[each % len(_KINDS)]
        arguments = tuple(files.get(word, word) for word in command.split())
        yield BadInput(arguments, make(random).encode("utf-8", "surrogateescape" if each % 2 else "replace")[:_LARGEST])


def _damaged(random: Random) -> str:
    """Something good with characters changed, removed, doubled or inserted."""
    text = random.choice(_GOOD)
    for _ in range(random.choice((1, 2, 5, 40))):
        at, length = random.randrange(len(text) + 1), random.choice((0, 1, 3, 30, 400))
        text = text[:at] + random.choice((*_ODD, text[at : at + length] * 2, "")) + text[at + length :]
    return text


def _replaced(random: Random) -> str:
    """A sound pod with one or more values of the wrong kind."""
    documents = list(yaml.safe_load_all(random.choice((_GOOD[0], (FILES / "fine.yaml").read_text(encoding="utf-8")))))
    for _ in range(random.choice((1, 1, 2, 6))):
        _replace(random, random.choice(documents))
    return "\n".join(json.dumps(each, default=str) for each in documents)


def _replace(random: Random, value: Any) -> None:
    while isinstance(value, dict | list) and value:
        key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
        if random.random() < 0.3 or not value[key] or not isinstance(value[key], dict | list):
            value[key] = copy.deepcopy(random.choice(_VALUES))
            return
        value = value[key]


def _noise(random: Random) -> str:
    """Bytes, as of a file that is no text."""
    return random.randbytes(random.choice((1, 10, 1000, 50_000))).decode("utf-8", "surrogateescape")


def _deep(random: Random) -> str:
    opening, depth = (
        random.choice(("[", "{", '{"a":', "- ", "? ", "[[", '{"items":[', "a: {")),
        random.choice((50, 900, 10_000)),
    )
    return (
        random.choice(("", '{"spec":', "spec: ")) + opening * depth + random.choice(("", "1", "]" * depth, "}" * depth))
    )


def _laughs(random: Random) -> str:
    """Aliases of aliases, as list items, map values or merged maps."""
    written = random.choice(("[*a, *a, *a, *a, *a, *a, *a, *a, *a]", "{<<: [*a, *a], k: *a}"))
    lines = ["a0: &a0 {x: 1}"]
    lines += (f"a{n + 1}: &a{n + 1} {written.replace('*a', f'*a{n}')}" for n in range(random.choice((3, 8, 30))))
    return "\n".join(
        [*lines, random.choice(("kind: NodeUpgrade\nspec: *a3", "spec: {containers: *a2}", "metadata: *a1"))]
    )


def _large(random: Random) -> str:
    """Much of the same, up to the size that is promised to be handled."""
    unit = random.choice(
        ("[],", "a,", '"x":1,', "- a\n", "{},", " ", "\n", "#", "&a ", "a: b\n---\n", "x", '{"spec":{}}', "'")
    )
    opening = random.choice(("", "[", "{", '{"items":[', "spec: ["))
    return opening + unit * (random.choice((1000, 20_000, 200_000)) // len(unit))


def _pieces(random: Random) -> str:
    return random.choice((" ", "\n", "")).join(
        random.choices((*_ODD, "a: ", "spec:", "kind: Pod", "- "), k=random.randint(0, 40))
    )


_KINDS: tuple[Callable[[Random], str], ...] = (
    _damaged,
    _replaced,
    _noise,
    _deep,
    _laughs,
    _replaced,
    _pieces,
    _damaged,
    _large,
)


def trouble(bad: BadInput) -> tuple[str, float]:
    """Run one.

    Returns:
        What must not have happened, or nothing; and the seconds of processor time it took.
    """
    began = time.process_time()  # machines that run tests are shared
    result = CliRunner().invoke(main, list(bad.arguments), input=bad.given)
    seconds = time.process_time() - began
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return "".join(traceback.format_exception(result.exception)), seconds
    if result.exit_code not in {0, 1, 2}:
        return f"exit code {result.exit_code}", seconds
    if result.exit_code and not result.output.strip():
        return "it failed without a word", seconds
    return "", seconds


def run(number: int, seed: int) -> int:
    """Run so many and print what came of them."""
    troubles: Counter[str] = Counter()
    longest = (0.0, BadInput((), b""))
    for each in bad_inputs(number, seed):
        found, seconds = trouble(each)
        longest = max(longest, (seconds, each), key=lambda pair: pair[0])
        if found:
            troubles[found.strip().splitlines()[-1]] += 1
            if troubles[found.strip().splitlines()[-1]] == 1:
                print(each.arguments, each.given[:300], found, sep="\n")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{number} inputs, {troubles.total()} in trouble; the longest took {longest[0]:.2f} s, {megabytes} MB in all")
    print(
        f"the longest: {' '.join(longest[1].arguments)} <<< {longest[1].given[:60]!r} ({len(longest[1].given)} bytes)"
    )
    return int(bool(troubles) or longest[0] > MOST_SECONDS or megabytes > MOST_MEGABYTES)


if __name__ == "__main__":
    sys.exit(run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0))
