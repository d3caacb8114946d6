"""A query has a result only where there is no doubt about it."""

import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.configuration import PrometheusServer
from nodeupgrade.fleet.health.evaluation import ProbeError
from nodeupgrade.fleet.health.prometheus import MOST_BYTES, MOST_SAMPLES, Sample, asking
from tests.builders.prometheus_server import NOW, FakePrometheus, sample, serving, vector


def now() -> datetime:
    return NOW


@pytest.fixture
async def fake() -> AsyncIterator[FakePrometheus]:
    async with serving(FakePrometheus()) as fake:
        yield fake


async def query(server: PrometheusServer, promql: str, utcnow: Callable[[], datetime]) -> tuple[Sample, ...]:
    async with asking(server, promql) as answer:
        return await answer.samples(utcnow)


async def test_samples_are_read(fake: FakePrometheus, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    fake.answer = vector(sample("0.5", job="web"), sample("+Inf"))
    found = await query(fake.server(bearer_token_file=str(tmp_path / "token")), "up", now)
    assert [str(each) for each in found] == ['0.5 of {job="web"}', "inf"]
    assert fake.asked == [("POST /prefix/api/v1/query up", "Bearer abc")]


async def test_a_scalar_is_a_sample(fake: FakePrometheus) -> None:
    fake.answer = json.dumps(
        {"status": "success", "data": {"resultType": "scalar", "result": [NOW.timestamp(), "2"]}}
    ).encode()
    assert [each.value for each in await query(fake.server(), "scalar(up)", now)] == [2.0]


BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (vector(), "returns nothing"),
    "not a number": (vector(sample("NaN")), "NaN"),
    "old": (vector(sample("1", seconds=61)), "which is not now"),
    "of the future": (vector(sample("1", seconds=-61)), "which is not now"),
    "one of many is old": (vector(sample("1"), sample("1", seconds=3600)), "which is not now"),
    "incomplete": (vector(sample("1"), warnings=["store unreachable"]), "warns of its result"),
    "no value": (vector({"metric": {}, "histogram": []}), "no number"),
    "a word": (vector(sample("many")), "cannot be read"),
    "no time": (vector({"metric": {}, "value": ["soon", "1"]}), "cannot be read"),
    "endless time": (vector({"metric": {}, "value": [1e300, "1"]}), "cannot be read"),
    "too many": (vector(*[sample("1")] * (MOST_SAMPLES + 1)), "more than"),
    "a matrix": (b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', "returns a matrix"),
    "an error": (b'{"status": "error", "errorType": "bad_data", "error": "parse error"}', "parse error"),
    "no JSON": (b"<html>", "no JSON"),
    "deep JSON": (b"[" * 100_000, "no JSON"),
    "another JSON": (b'["up"]', "no result of a query"),
    "no data": (b'{"status": "success"}', "no result of a query"),
    "null": (b'{"status": "success", "data": null}', "no result of a query"),
    "too long": (b" " * (MOST_BYTES + 1), "more than"),
}


@pytest.mark.parametrize(("answer", "said"), BAD.values(), ids=BAD.keys())
async def test_what_is_no_result_is_an_error(fake: FakePrometheus, answer: bytes, said: str) -> None:
    fake.answer = answer
    with pytest.raises(ProbeError, match=said):
        await query(fake.server(), "up", now)


@pytest.mark.parametrize("status", [204, 301, 307, 400, 401, 403, 404, 422, 500, 503])
async def test_only_200_is_a_result(fake: FakePrometheus, status: int) -> None:
    fake.answer, fake.status = vector(sample("1")), status
    async with serving(FakePrometheus(answer=vector(sample("1")))) as elsewhere:
        fake.headers = {"Location": f"{elsewhere.url}/api/v1/query"}
        with pytest.raises(ProbeError):
            await query(fake.server(), "up", now)
        assert elsewhere.asked == []


@pytest.mark.parametrize(
    "terms",
    [
        {"url": "http://127.0.0.1:1"},
        {"url": "http://[::1"},
        {"url": "http://name.invalid"},
        {"url": "http://127.0.0.1:1", "bearer_token_file": "/nowhere"},
        {"url": "https://127.0.0.1:1", "ca_file": "/nowhere"},
    ],
)
async def test_a_server_that_cannot_be_asked_is_an_error(terms: dict[str, Any]) -> None:
    with pytest.raises(ProbeError, match="does not answer"):
        await query(PrometheusServer(name="default", **terms), "up", now)
