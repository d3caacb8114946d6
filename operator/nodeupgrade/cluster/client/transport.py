"""HTTP to the API server: raw JSON over the official client's transport, the port's errors, and retries."""

import asyncio
import contextlib
import os
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import tenacity
from kubernetes.aio import config as untyped_config

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.list_reading import read_list
from nodeupgrade.cluster.client.refusals import AheadError, failure, is_about_all_requests, refusal_message
from nodeupgrade.cluster.kube_api import Keep, NotLeadingError, TooLargeError, UnavailableError
from nodeupgrade.text import parse_json

_config: Any = untyped_config  # Any: upstream has no type hints here

REQUEST_TIMEOUT_SECONDS = 15
"""Timeout of one request: a hung connection must not hang the caller."""

RETRY_FOR_SECONDS = 30
"""How long requests to a busy or unreachable API server are retried before the caller gets the error."""

LONGEST_PAUSE_SECONDS = 30
"""How long the API server may hold back this client as a whole; priority and fairness asks for 32 s at most."""

SILENCE_SECONDS = 90
"""Longest silence of a watch before its connection is considered dead: bookmarks come every minute."""

WATCH = "WATCH"
"""Reported as the verb of a watch, which HTTP sends as a GET."""

NO_CODE = "none"
"""Reported in place of an HTTP status when there was no answer."""

_NO_ANSWER = (TimeoutError, aiohttp.ClientError, OSError, ValueError, _config.ConfigException)
"""Errors of a request with no answer, with an answer that is not JSON, or whose token cannot be read at the moment."""


def _since_boot() -> float:
    """Return the seconds since boot, with those in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))  # only Linux has the former


def _why(error: Exception) -> str:
    """Return why there is no answer, in a few words: errors of a connection repeat all of its settings."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"{error.host}: there is no address of this name in DNS"
        case aiohttp.ClientConnectorCertificateError():
            problem = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
            return f"{error.host}:{error.port}: its certificate is not trusted: {problem}"
        case aiohttp.ClientSSLError():
            return f"{error.host}:{error.port}: TLS fails: {getattr(error.os_error, 'reason', '') or error.os_error}"
        case aiohttp.ClientConnectorError() if error.os_error.errno:
            return f"{error.host}:{error.port}: {os.strerror(error.os_error.errno).lower()}"
        case _:
            return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Timeout of one request, and the time for which a failing request is retried, in seconds."""

    request_seconds: float = REQUEST_TIMEOUT_SECONDS
    retry_seconds: float = RETRY_FOR_SECONDS


@dataclass(frozen=True, slots=True)
class Session:
    """Plain HTTP to the API server, for a library that does its own HTTP; every request is authenticated."""

    server: str
    http: aiohttp.ClientSession


class Transport:
    """Sends requests with the identity of a kubeconfig or of the pod it runs in.

    Args:
        client: The official client, which authenticates and encrypts.
        answered: Called with verb and HTTP status of every answer, or NO_CODE if there was none.
        largest: Bytes of the largest answer that is read, where a request names no other limit; None for any.

    Attributes:
        may_write: asked immediately before every write is sent, each time it is retried too.
    """

    def __init__(
        self, client: Any, patience: Patience, answered: Callable[[str, str], None], largest: int | None = None
    ) -> None:
        self._client = client
        self._patience = patience
        self._answered = answered
        self._largest = largest
        self.may_write: Callable[[], bool] = lambda: True
        self._sessions: list[aiohttp.ClientSession] = []
        self._resume_at = 0.0
        self._server_date: tuple[datetime, float] | None = (
            None  # the server's time in its last answer, and when that was
        )

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions:
            await session.close()
        await self._client.close()

    def session(self) -> Session:
        """Open a session with the same login: CA and client certificates as here, and the current token per request."""
        configuration = self._client.configuration

        async def sign(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
            for signature in (await configuration.auth_settings()).values():
                request.headers[signature["key"]] = signature["value"]
            if (name := configuration.tls_server_name) is not None:
                request.server_hostname = name
            return await send(request)

        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._client.rest_client.ssl_context),
            middlewares=(sign,),
            proxy=configuration.proxy,
        )
        self._sessions.append(session)
        return Session(configuration.host, session)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        largest: int | None = None,
        keep: Keep | None = None,
    ) -> Json:
        """Send a request, with retries, and return the JSON of the answer; for the last two, see ``Requests``.

        All our requests are safe to repeat. A create is, because names are deterministic: the second one
        conflicts, as it would after a crash between the two.

        Raises:
            NotFoundError, ConflictError, ExpiredError, RejectedError, TooLargeError, UnavailableError,
                NotLeadingError: As in ``kube_api``.
        """
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_is_retriable),
            wait=_wait,
            stop=tenacity.stop_before_delay(self._patience.retry_seconds),
            reraise=True,
        )
        return await retrying(
            self._send, method, path, dict(query or {}), body, content_type, largest=largest, keep=keep
        )

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Stream the lines of a watch.

        It is never retried here, since only the caller knows the resourceVersion to resume from.

        Raises:
            ForbiddenError, ExpiredError, UnavailableError, RejectedError: As in ``kube_api``.
        """
        what, rest = f"watch {path}", b""
        timeout = aiohttp.ClientTimeout(connect=self._patience.request_seconds, sock_read=SILENCE_SECONDS)
        try:
            request = await self._signed("GET", path, dict(query), None, "application/json")
            response = await self._client.call_api(*request, _request_timeout=timeout)
        except _NO_ANSWER as error:
            self._answered(WATCH, NO_CODE)
            raise UnavailableError(f"cannot {what} because the API server does not answer ({_why(error)})") from error
        self._answered(WATCH, str(response.status))
        try:
            if response.status >= 400:
                message, after = refusal_message(await response.read()), response.getheaders().get("Retry-After")
                raise failure(what, response.status, message, after)
            async for chunk in response.response.content.iter_any():
                *complete, rest = (rest + chunk).split(b"\n")
                for line in complete:
                    yield line
        except TimeoutError:
            return  # silent for longer than the interval of bookmarks; the caller resumes over a new connection
        except _NO_ANSWER as error:
            raise UnavailableError(f"cannot {what} because the connection broke ({error!r})") from error
        finally:
            _break_off(response)

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: object,
        content_type: str,
        *,
        largest: int | None = None,
        keep: Keep | None = None,
    ) -> Json:
        what, largest = f"{method} {path}", self._largest if largest is None else largest
        await self._turn(what)
        try:
            request = await self._signed(method, path, query, body, content_type)
            if method != "GET" and not self.may_write():
                raise NotLeadingError(f"cannot {what} because this operator does not lead")
            response = await self._client.call_api(*request, _request_timeout=self._patience.request_seconds)
            payload: bytes | None = None
            kept: Json | None = None
            if keep is not None and response.status < 400:
                kept = await _read_list(response, keep, largest)
            else:
                payload = await (response.read() if largest is None else _read(response, largest))
            if payload is not None and response.status < 400:
                answer: Json = parse_json(payload)
        except _NO_ANSWER as error:
            self._answered(method, NO_CODE)
            raise UnavailableError(f"cannot {what} because the API server does not answer ({_why(error)})") from error
        self._answered(method, str(response.status))
        self._note_time(response.getheaders().get("Date"))
        if kept is not None:
            return kept
        if payload is None:
            raise TooLargeError(f"cannot {what} because the answer has more than {largest} bytes")
        if response.status < 400:
            return answer
        refusal = failure(what, response.status, refusal_message(payload), response.getheaders().get("Retry-After"))
        if isinstance(refusal, UnavailableError) and is_about_all_requests(response.status, payload):
            pause = min(refusal.after, LONGEST_PAUSE_SECONDS)
            self._resume_at = max(self._resume_at, time.monotonic() + pause)
        raise refusal

    def server_time(self) -> datetime:
        """Return the API server's time: that of its last answer, and how long that is ago; before, the own time."""
        if self._server_date is None:
            return datetime.now(UTC)
        date, at = self._server_date
        return date + timedelta(seconds=_since_boot() - at)

    def _note_time(self, date: str | None) -> None:
        with contextlib.suppress(ValueError):  # of something in between, which is not asked
            if date is not None:
                self._server_date = parsedate_to_datetime(date).astimezone(UTC), _since_boot()

    async def _turn(self, what: str) -> None:
        """Wait as long as a busy API server has asked this client to: it may have asked it of another request.

        Raises:
            UnavailableError: That is longer than a request is tried.
        """
        while (left := self._resume_at - time.monotonic()) > 0:
            if left > self._patience.retry_seconds:
                raise UnavailableError(f"cannot {what} because the API server asked for fewer requests", left)
            await asyncio.sleep(left * random.uniform(1.0, 1.2))  # noqa: S311 - jitter, not a secret

    async def _signed(self, method: str, path: str, query: dict[str, str], body: object, content_type: str) -> Any:
        return await self._client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params={"Content-Type": content_type, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )


async def _read(response: Any, largest: int) -> bytes | None:
    """Return the body of a response; None if it is larger, and then no more of it is read."""
    payload = bytearray()
    async for chunk in response.response.content.iter_any():
        payload += chunk
        if len(payload) > largest:
            _break_off(response)
            return None
    return bytes(payload)


async def _read_list(response: Any, keep: Keep, largest: int | None) -> Json | None:
    """Return the list that a response has; None if an item of it is larger, and then no more of it is read."""
    answer = None
    try:
        answer = await read_list(response.response.content.iter_any(), keep, largest)
    finally:
        if answer is None:
            _break_off(response)
    return answer


def _break_off(response: Any) -> None:
    """End the connection; to close it would wait for the server's goodbye, even after the loop has ended."""
    if (connection := response.response.connection) is not None and connection.transport is not None:
        connection.transport.abort()
    response.response.close()


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, UnavailableError) and not isinstance(error, AheadError)


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.after if isinstance(error, UnavailableError) else 0.0
    return max(retry_after, tenacity.wait_random_exponential(multiplier=0.2, max=5)(state))
