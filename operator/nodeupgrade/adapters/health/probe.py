"""The HealthProbe port, implemented against real servers."""

import asyncio
import json
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from nodeupgrade.api.configuration import PrometheusServer
from nodeupgrade.api.json import Json, timestamp
from nodeupgrade.api.limits import shorten
from nodeupgrade.api.upgrade.health import ClusterObjects, HealthCheck, PrometheusQuery
from nodeupgrade.api.wording import counted
from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.placement import matches_labels
from nodeupgrade.domain.rollout.health import HealthObservation, HealthState
from nodeupgrade.ports.health import HealthProbe
from nodeupgrade.ports.kube import ForbiddenError, KubeApi, NotFoundError, Resource

JUDGED_AT_ONCE = 2
"""Expressions that are evaluated at the same time: with the operator itself, they fit into its memory limit."""


class ProbeError(NodeUpgradeError):
    """A check cannot be evaluated; the message says why."""


@dataclass(eq=False)
class ClusterProbe(HealthProbe):
    """Evaluates checks with the Prometheus servers of the configuration, and with the cluster's objects."""

    kube: KubeApi  # the API server, with the identity that health checks read with
    servers: Sequence[PrometheusServer]  # those that may be queried
    utcnow: Callable[[], datetime]  # returns the wall-clock time, UTC
    _judging: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(JUDGED_AT_ONCE))

    async def observe(self, check: HealthCheck) -> HealthObservation:
        """Evaluate a check once. Its timeout is that of its query; its expression has limits of its own."""
        seconds = check.timeout.total_seconds()
        try:
            match check:
                case HealthCheck(prometheus=PrometheusQuery() as asked):
                    return await self._query(asked, seconds)
                case HealthCheck(objects=ClusterObjects() as wanted):
                    return await self._read(wanted, seconds)
                case _:
                    return _broken("it says neither prometheus nor objects")
        except NodeUpgradeError as error:
            return _broken(str(error))
        except TimeoutError:
            return _broken("no answer came within its timeout")

    async def _query(self, asked: PrometheusQuery, seconds: float) -> HealthObservation:
        server = next((server for server in self.servers if server.name == asked.server), None)
        if server is None:
            return _broken(f"the operator's configuration names no Prometheus {asked.server}")
        async with asyncio.timeout(seconds):
            samples = await query(server, asked.query, self.utcnow)
        cases = [{"value": sample.value, "labels": sample.labels} for sample in samples]
        return await self._judged(asked.expression, cases, [str(sample) for sample in samples], "sample")

    async def _read(self, wanted: ClusterObjects, seconds: float) -> HealthObservation:
        async with asyncio.timeout(seconds):
            found = await read(self.kube, wanted)
        cases = [{"object": body} for body in found]
        return await self._judged(wanted.expression, cases, [label(body) for body in found], "object")

    async def _judged(
        self, expression: str, cases: Sequence[Mapping[str, object]], labels: Sequence[str], what: str
    ) -> HealthObservation:
        """Evaluate an expression for each case; ``labels`` name the cases in messages."""
        async with self._judging:
            failing = await which_fail(expression, cases)
        if not failing:
            return HealthObservation(state=HealthState.HOLDING)
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        detail = f"{expression} is false for {len(failing)} of {counted(len(cases), what)}: {labels[failing[0]]}{more}"
        return HealthObservation(state=HealthState.FAILING, detail=detail)


def _broken(detail: str) -> HealthObservation:
    return HealthObservation(state=HealthState.BROKEN, detail=detail)


# Objects of the cluster that health checks are about.

MOST_OBJECTS = 500
READER_ROLE_LABEL = "nodeupgrade.dev/aggregate-to-health-checks"
"""Label of the ClusterRoles that say what health checks may read."""


async def read(kube: KubeApi, wanted: ClusterObjects) -> tuple[Json, ...]:
    """Return the objects as they are now, at least one. The caller limits the time.

    Raises:
        ProbeError: There are none or too many, they may not be read, or the API server does not answer.
    """
    group, _, version = wanted.api_version.rpartition("/")
    resource = Resource(group, version, wanted.resource, "", wanted.namespace)
    try:
        found = await _found(kube, resource, wanted)
    except ForbiddenError:
        raise ProbeError(
            f"health checks may not read {_named(wanted)}; give them the right with a ClusterRole that has the label "
            f'{READER_ROLE_LABEL}: "true"'
        ) from None
    except NotFoundError:
        raise ProbeError(f"there is no {_named(wanted)}") from None
    if not found:
        raise ProbeError(f"there are no {_named(wanted)} that are selected")
    return tuple(found)


async def _found(kube: KubeApi, resource: Resource, wanted: ClusterObjects) -> list[Json]:
    if wanted.name is not None:
        return [await kube.get(resource, wanted.name)]
    selector, found = wanted.selector, list[Json]()
    labels = None if selector is None else selector.match_labels
    async for page in kube.pages(resource, labels=labels or None):
        found += [
            each
            for each in page.items
            if selector is None or matches_labels(selector, each["metadata"].get("labels") or {})
        ]
        if len(found) > MOST_OBJECTS:
            raise ProbeError(f"more than {MOST_OBJECTS} {_named(wanted)} are selected; select fewer")
    return found


def label(body: Json) -> str:
    """Return namespace and name of an object."""
    metadata = body["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def _named(wanted: ClusterObjects) -> str:
    where = f" in namespace {wanted.namespace}" if wanted.namespace else ""
    name = f" {wanted.name}" if wanted.name else ""
    return f"{wanted.resource} ({wanted.api_version}){name}{where}"


# Instant queries of a Prometheus, or of anything that speaks its API.

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


async def query(server: PrometheusServer, promql: str, utcnow: Callable[[], datetime]) -> tuple[Sample, ...]:
    """Return the samples of an instant query, at least one. The caller limits the time.

    Redirects are not followed, since only the configuration says where queries go.

    Raises:
        ProbeError: The server does not answer or refuses, or the result is empty, incomplete, or of another time.
    """
    return tuple(_samples(await _answer(server, promql), utcnow()))


async def _answer(server: PrometheusServer, promql: str) -> Any:
    url = f"{server.url.rstrip('/')}/api/v1/query"
    try:
        headers = {} if server.bearer_token_file is None else {"Authorization": f"Bearer {_token(server)}"}
        connector = aiohttp.TCPConnector(ssl=_trust(server))
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers) as session,
            session.post(url, data={"query": promql}, allow_redirects=False) as response,
        ):
            payload = await response.content.read(MOST_BYTES + 1)
            while len(payload) <= MOST_BYTES and (more := await response.content.read(MOST_BYTES)):
                payload += more
            if len(payload) > MOST_BYTES:
                raise ProbeError(f"Prometheus {server.name} answers with more than {MOST_BYTES} bytes")
            return _read(server, response.status, payload)
    except (aiohttp.ClientError, OSError, UnicodeError, ValueError) as error:
        problem = shorten(str(error), SAID) or type(error).__name__
        raise ProbeError(f"Prometheus {server.name} does not answer: {problem}") from None


def _token(server: PrometheusServer) -> str:
    return Path(server.bearer_token_file or "").read_text(encoding="ascii").strip()


def _trust(server: PrometheusServer) -> ssl.SSLContext | bool:
    return True if server.ca_file is None else ssl.create_default_context(cafile=server.ca_file)


def _read(server: PrometheusServer, status: int, payload: bytes) -> Any:
    try:
        answer = json.loads(payload)
    except (ValueError, RecursionError):
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


# Evaluates CEL expressions in a process of its own (``judge``).

JUDGE = Path(__file__).with_name("judge.py")
"""Started as a file: as a module it would first import the whole package, at every evaluation."""

SECONDS = 20
"""How long an evaluation may take on the clock, whatever timeout the query of its check has."""

MOST_DATA_BYTES = 8 * 1024 * 1024
"""The size of the data of one evaluation, as JSON."""

TOO_MUCH = "its expression takes too much time or memory"

SAID_OF_EXPRESSION = 300
"""Characters of an error that are told."""


async def which_fail(expression: str, cases: Sequence[Mapping[str, object]]) -> tuple[int, ...]:
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
        raise ProbeError(TOO_MUCH) from None
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
