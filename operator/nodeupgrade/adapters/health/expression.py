"""Evaluates CEL expressions in a process of its own (``judge``)."""

import asyncio
import json
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from nodeupgrade.api.limits import shorten
from nodeupgrade.domain.errors import NodeUpgradeError

JUDGE = Path(__file__).with_name("judge.py")
"""Started as a file: as a module it would first import the whole package, at every evaluation."""

SAID = 300
"""Characters of an error that are told."""


class ExpressionError(NodeUpgradeError):
    """An expression cannot be evaluated: it is wrong, something is missing in the data, or it takes too much."""


async def which_fail(expression: str, cases: Sequence[Mapping[str, object]], seconds: float) -> tuple[int, ...]:
    """Return the indexes of the cases of which an expression is false.

    Args:
        expression: In CEL; must come to true or false.
        cases: The variables of each evaluation: what JSON can represent.
        seconds: Processor time that it may take; the caller limits the time on the clock.

    Raises:
        ExpressionError: It cannot be evaluated for every case.
    """
    asked = {"expression": expression, "seconds": max(1, math.ceil(seconds)), "cases": cases}
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
        output, _ = await process.communicate(json.dumps(asked).encode())
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
    return _read(output, process.returncode)


def _read(output: bytes, status: int | None) -> tuple[int, ...]:
    """Read the answer; a process that was ended by its limits has not given any."""
    try:
        answer = json.loads(output) if status == 0 else None
    except ValueError:
        answer = None
    match answer:
        case {"false": list(indexes)} if all(isinstance(index, int) for index in indexes):
            return tuple(indexes)
        case {"error": str(problem)}:
            raise ExpressionError(f"its expression cannot be evaluated: {shorten(problem, SAID)}")
        case _:
            raise ExpressionError("its expression takes too much time or memory")
