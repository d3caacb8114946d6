"""Tests for evaluating CEL expressions in a process of their own."""

import asyncio
import os
import re
import resource
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.fleet.health import expressions, judge, objects
from nodeupgrade.fleet.health.evaluation import ProbeError
from nodeupgrade.fleet.health.expressions import find_failing
from nodeupgrade.fleet.health.probe import JUDGED_AT_ONCE


async def test_each_case_is_judged_by_itself() -> None:
    assert await find_failing("value < 2", [{"value": number} for number in (1, 2, 0, 3)]) == (1, 3)


@pytest.mark.parametrize("expression", ["value <", "(" * 1000], ids=["unfinished", "nested"])
async def test_an_error_is_told(expression: str) -> None:
    with pytest.raises(ProbeError, match="its expression cannot be evaluated"):
        await find_failing(expression, [{"value": 5}])


async def test_not_a_number_is_neither_less_nor_more() -> None:
    with pytest.raises(ProbeError):
        await find_failing("value < 1", [{"value": float("nan")}])


async def test_one_that_is_given_up_leaves_no_process() -> None:
    before = _children()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await find_failing("l.all(a, l.all(b, l.all(c, l.all(d, true))))", [{"l": list(range(200))}])
    assert _children() == before


async def test_it_knows_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    seen: dict[str, str] = {}
    start = asyncio.create_subprocess_exec

    async def watched(*argv: Any, **options: Any) -> asyncio.subprocess.Process:
        seen.update(options["env"])
        return await start(*argv, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    assert await find_failing("true", [{}]) == ()
    assert "TOKEN" not in seen


def _children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - it is no file
        return set(file.read().split())


SPINS = "l.all(a, l.all(b, l.all(c, l.all(d, l.all(e, l.all(f, a + b + c + d + e + f >= 0))))))"
GROWS = "l.map(a, l.map(b, s + s)) != []"


async def test_it_is_ended_after_some_seconds_of_the_processor() -> None:
    """Whatever timeout its check has: the limits are the program's own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with pytest.raises(ProbeError, match="too much time"):
        await find_failing(SPINS, [{"l": list(range(200))}])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert judge.CPU_SECONDS - 1 < used < judge.CPU_SECONDS + 4


async def test_it_is_ended_by_the_clock_where_it_gets_no_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is not its own fault, so the message does not say so."""
    monkeypatch.setattr(expressions, "SECONDS", 0.5)
    with pytest.raises(ProbeError, match=r"not evaluated within 0.5 s; the operator gets too little processor time"):
        await find_failing(SPINS, [{"l": list(range(200))}])


async def test_two_and_the_operator_fit_into_its_memory_limit() -> None:
    """Measured while two grow as far as they can."""
    begun = asyncio.gather(
        *(find_failing(GROWS, [{"l": list(range(300)), "s": "x" * 10_000}]) for _ in range(2)), return_exceptions=True
    )
    highest: dict[str, int] = {}
    while not begun.done():
        for child in _children():
            highest[child] = max(highest.get(child, 0), _resident(child))
        await asyncio.sleep(0.005)
    for error in await begun:
        assert isinstance(error, ProbeError)
        assert re.search("too much time or memory|MemoryError", str(error))
    assert max(highest.values()) > 60 * MIB, "nothing has grown"
    assert max(highest.values()) <= judge.MEMORY_BYTES
    assert _limit() >= JUDGED_AT_ONCE * judge.MEMORY_BYTES + OPERATOR_ITSELF


async def test_data_that_are_too_large_are_not_evaluated() -> None:
    with pytest.raises(ProbeError, match="select less"):
        await find_failing("true", [{"object": {"data": "a" * expressions.MOST_DATA_BYTES}}])


async def test_as_many_objects_as_may_be_selected_can_be_evaluated() -> None:
    conditions = [{"type": "Available", "status": "True", "message": "a" * 300} for _ in range(10)]
    deployment = {"metadata": {"name": "x" * 60}, "spec": {"a": ["b" * 50] * 40}, "status": {"conditions": conditions}}
    asked = "object.status.conditions.exists(c, c.type == 'Available' && c.status == 'True')"
    assert await find_failing(asked, [{"object": deployment}] * objects.MOST_OBJECTS) == ()


MIB = 1024 * 1024
OPERATOR_ITSELF = 200 * MIB
"""More than the operator needs for 5,000 nodes (docs/measured/README.md)."""


def _limit() -> int:
    """The memory limit in the Deployment."""
    written = (Path(__file__).parents[4] / "manifests/operator.yaml").read_text(encoding="utf-8")
    (limit,) = (int(found) for found in re.findall(r"limits: \{memory: (\d+)Mi\}", written))
    return limit * MIB


def _resident(process: str) -> int:
    try:
        fields = Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[1]) * resource.getpagesize() if fields else 0
