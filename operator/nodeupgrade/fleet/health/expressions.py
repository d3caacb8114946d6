"""Evaluates CEL expressions in a process of its own (``judge``)."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nodeupgrade.api.limits import shorten
from nodeupgrade.fleet.health.evaluation import ProbeError

JUDGE = Path(__file__).with_name("judge.py")
"""Started as a file: as a module it would first import the whole package, at every evaluation."""

SECONDS = 60
"""How long an evaluation may take on the clock, whatever timeout the query of its check has.

What it may cost is limited by ``judge``, so this only ends one that gets nothing of the processor.
"""

MOST_DATA_BYTES = 8 * 1024 * 1024
"""The size of the data of one evaluation, as JSON."""

TOO_MUCH = "its expression takes too much time or memory"

BUSY = "the operator gets too little processor time"

SAID_OF_EXPRESSION = 300
"""Characters of an error that are told."""


async def find_failing(expression: str, cases: Sequence[Mapping[str, object]]) -> tuple[int, ...]:
    """Return the indexes of the cases of which an expression is false.

    Args:
        expression: In CEL; must come to true or false.
        cases: The variables of each evaluation: what JSON can represent.

    Raises:
        ProbeError: It cannot be evaluated for every case.
    """
    asked = json.dumps({"expression": expression, "cases": cases}).encode()
    if len(asked) > MOST_DATA_BYTES:
        raise ProbeError(f"its data are {len(asked)} bytes, more than {MOST_DATA_BYTES}; select less")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        str(JUDGE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    try:
        async with asyncio.timeout(SECONDS):
            output, _ = await process.communicate(asked)
    except TimeoutError:
        raise ProbeError(f"its expression was not evaluated within {SECONDS} s; {BUSY}") from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
    return _verdict(output, process.returncode)


def _verdict(output: bytes, status: int | None) -> tuple[int, ...]:
    """Read the answer; a process that was ended by its limits has not given any."""
    try:
        answer = json.loads(output) if status == 0 else None
    except ValueError:
        answer = None
    match answer:
        case {"false": list(indexes)} if all(isinstance(index, int) for index in indexes):
            return tuple(indexes)
        case {"error": str(problem)}:
            raise ProbeError(f"its expression cannot be evaluated: {shorten(problem, SAID_OF_EXPRESSION)}")
        case _:
            raise ProbeError(TOO_MUCH)
