"""CEL expressions, evaluated in a process that can be ended."""

import asyncio
import os
from typing import Any

import pytest

from nodeupgrade.adapters.health.expression import ExpressionError, which_fail

DEPLOYMENT = {"metadata": {"name": "web"}, "spec": {"replicas": 2}, "status": {"conditions": [{"type": "Available"}]}}


@pytest.mark.parametrize(
    ("expression", "variables", "holds"),
    [
        ("value == 0", {"value": 0.0}, True),
        ("value < 1", {"value": 1.5}, False),
        ("value < 1", {"value": float("-inf")}, True),
        ("labels.job == 'web' && value > 0.5", {"value": 1, "labels": {"job": "web"}}, True),
        ("object.spec.replicas == 2", {"object": DEPLOYMENT}, True),
        ("object.status.conditions.exists(c, c.type == 'Degraded')", {"object": DEPLOYMENT}, False),
        ("!has(object.status.phase)", {"object": DEPLOYMENT}, True),
    ],
)
async def test_expressions_are_true_or_false(expression: str, variables: dict[str, Any], holds: bool) -> None:
    assert await which_fail(expression, [variables], 10) == (() if holds else (0,))


async def test_each_case_is_judged_by_itself() -> None:
    assert await which_fail("value < 2", [{"value": number} for number in (1, 2, 0, 3)], 10) == (1, 3)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "value <",
        "value",
        "'true'",
        "1",
        "null",
        "nothing == 1",
        "object.status.phase == 'x'",
        "1 / 0 == 1",
        "value < 'a'",
        "(" * 1000,
        "value < 1 || nothing == 1",
    ],
)
async def test_what_is_neither_true_nor_false_is_an_error(expression: str) -> None:
    with pytest.raises(ExpressionError, match="its expression cannot be evaluated"):
        await which_fail(expression, [{"value": 5, "object": {"status": {}}}], 10)


async def test_not_a_number_is_neither_less_nor_more() -> None:
    with pytest.raises(ExpressionError):
        await which_fail("value < 1", [{"value": float("nan")}], 10)


@pytest.mark.parametrize(
    "expression",
    [
        "l.all(a, l.all(b, l.all(c, l.all(d, l.all(e, a + b + c + d + e >= 0)))))",
        "l.map(a, l.map(b, l.map(c, l))) != []",
    ],
    ids=["time", "memory"],
)
async def test_one_that_takes_too_much_is_ended(expression: str) -> None:
    with pytest.raises(ExpressionError, match=r"too much time or memory|MemoryError"):
        await which_fail(expression, [{"l": list(range(200))}], 1)


async def test_one_that_is_given_up_leaves_no_process() -> None:
    before = _children()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await which_fail("l.all(a, l.all(b, l.all(c, l.all(d, true))))", [{"l": list(range(200))}], 60)
    assert _children() == before


async def test_it_knows_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    seen: dict[str, str] = {}
    start = asyncio.create_subprocess_exec

    async def watched(*argv: Any, **options: Any) -> asyncio.subprocess.Process:
        seen.update(options["env"])
        return await start(*argv, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", watched)
    assert await which_fail("true", [{}], 10) == ()
    assert "TOKEN" not in seen


def _children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:  # noqa: PTH123 - it is no file
        return set(file.read().split())
