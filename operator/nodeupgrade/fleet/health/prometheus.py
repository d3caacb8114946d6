"""Instant queries of a Prometheus, or of anything that speaks its API."""

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from nodeupgrade.api.configuration import PrometheusServer
from nodeupgrade.api.json import timestamp
from nodeupgrade.api.limits import shorten
from nodeupgrade.fleet.health.evaluation import ProbeError
from nodeupgrade.text import parse_json, trimmed

MOST_BYTES = 1024 * 1024
MOST_SAMPLES = 1000
SKEW = timedelta(seconds=60)
"""How far the time of a sample may be from ours: more is another clock, or an answer from a cache."""

SAID = 200
"""Characters of a server's words that are told."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a result."""

    labels: dict[str, str]
    value: float

    def __str__(self) -> str:
        labels = ", ".join(f'{name}="{value}"' for name, value in sorted(self.labels.items()))
        return f"{self.value:g} of {{{labels}}}" if labels else f"{self.value:g}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that has begun to arrive; next to nothing of it is in memory yet."""

    _server: PrometheusServer
    _response: aiohttp.ClientResponse

    async def samples(self, utcnow: Callable[[], datetime]) -> tuple[Sample, ...]:
        """Read the samples, at least one. The caller limits the time.

        Raises:
            ProbeError: The server refuses, or the result is empty, incomplete, or of another time.
        """
        with _told(self._server):
            payload = await self._payload()
        return tuple(_samples(_read(self._server, self._response.status, payload), utcnow()))

    async def _payload(self) -> bytes:
        content = self._response.content
        payload = await content.read(MOST_BYTES + 1)
        while len(payload) <= MOST_BYTES and (more := await content.read(MOST_BYTES)):
            payload += more
        if len(payload) > MOST_BYTES:
            raise ProbeError(f"Prometheus {self._server.name} answers with more than {MOST_BYTES} bytes")
        return payload


@asynccontextmanager
async def asking(server: PrometheusServer, promql: str) -> AsyncIterator[Answer]:
    """Send an instant query, and wait until its answer begins. The caller limits the time.

    Redirects are not followed, since only the configuration says where queries go.

    Raises:
        ProbeError: The server does not answer.
    """
    url = f"{server.url.rstrip('/')}/api/v1/query"
    async with AsyncExitStack() as opened:
        with _told(server):
            headers = {} if server.bearer_token_file is None else {"Authorization": f"Bearer {_token(server)}"}
            connector = aiohttp.TCPConnector(ssl=_trust(server))
            session = await opened.enter_async_context(aiohttp.ClientSession(connector=connector, headers=headers))
            posted = session.post(url, data={"query": promql}, allow_redirects=False)
            response = await opened.enter_async_context(posted)
        yield Answer(server, response)


@contextmanager
def _told(server: PrometheusServer) -> Iterator[None]:
    """Say of every failure to speak to a server which one it is."""
    try:
        yield
    except (aiohttp.ClientError, OSError, UnicodeError, ValueError) as error:
        problem = shorten(str(error), SAID) or type(error).__name__
        raise ProbeError(f"Prometheus {server.name} does not answer: {problem}") from None


def _token(server: PrometheusServer) -> str:
    return trimmed(Path(server.bearer_token_file or "").read_bytes().decode("ascii"))


def _trust(server: PrometheusServer) -> ssl.SSLContext | bool:
    return True if server.ca_file is None else ssl.create_default_context(cafile=server.ca_file)


def _read(server: PrometheusServer, status: int, payload: bytes) -> Any:
    try:
        answer = parse_json(payload)
    except ValueError:
        raise ProbeError(f"Prometheus {server.name} answers {status} with what is no JSON") from None
    match answer:
        case {"status": "success", "data": data} if status == 200:
            if answer.get("warnings"):
                raise ProbeError(
                    f"Prometheus {server.name} warns of its result: {shorten(str(answer['warnings']), SAID)}"
                )
            return data
        case {"error": str(problem)}:
            raise ProbeError(f"Prometheus {server.name} answers {status}: {shorten(problem, SAID)}")
        case _:
            raise ProbeError(f"Prometheus {server.name} answers {status} with what is no result of a query")


def _samples(data: Any, now: datetime) -> Iterator[Sample]:
    match data:
        case {"resultType": "scalar", "result": [time, value]}:
            yield Sample({}, _value(time, value, now))
        case {"resultType": "vector", "result": []}:
            raise ProbeError('the query returns nothing; add "or vector(0)" where nothing is the good result')
        case {"resultType": "vector", "result": list(found)} if len(found) <= MOST_SAMPLES:
            for each in found:
                match each:
                    case {"metric": dict(labels), "value": [time, value]}:
                        yield Sample({str(name): str(text) for name, text in labels.items()}, _value(time, value, now))
                    case _:
                        raise ProbeError("the query returns a sample that is no number")
        case {"resultType": "vector"}:
            raise ProbeError(f"the query returns more than {MOST_SAMPLES} samples; aggregate them")
        case {"resultType": str(kind)}:
            raise ProbeError(f"the query returns a {shorten(kind, SAID)}, not an instant vector or a scalar")
        case _:
            raise ProbeError("the answer is no result of a query")


def _value(time: object, value: object, now: datetime) -> float:
    """Read the value of a sample, which must be of now and a number."""
    try:
        taken, number = datetime.fromtimestamp(float(str(time)), UTC), float(str(value))
    except (ValueError, OverflowError, OSError):
        raise ProbeError("the query returns a sample that cannot be read") from None
    if abs(now - taken) > SKEW:
        raise ProbeError(f"the result is of {timestamp(taken)}, which is not now; see to the clocks and to caches")
    if number != number:  # noqa: PLR0124 - only NaN differs from itself
        raise ProbeError("the query returns NaN, which is no number")
    return number
