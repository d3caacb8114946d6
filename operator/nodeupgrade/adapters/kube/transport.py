"""HTTP to the API server: the official client's transport, raw JSON, our errors, and the retries."""

import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import tenacity
import yaml
from kubernetes.aio import client as untyped_client
from kubernetes.aio import config as untyped_config

from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.ports.kube import (
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NoClusterError,
    NotFoundError,
    RejectedError,
    UnavailableError,
)

_client: Any = untyped_client  # Any: upstream has no type hints here
_config: Any = untyped_config

REQUEST_TIMEOUT_SECONDS = 15
"""Longest time one request may take: a hung connection must not hang the caller."""

RETRY_FOR_SECONDS = 30
"""How long a busy or unreachable API server is tried again before the caller hears of it."""

SILENCE_SECONDS = 90
"""Longest silence of a watch before its connection is taken for dead: bookmarks come every minute."""

WATCH = "WATCH"
"""What stands for the verb of a GET that goes on."""

NO_CODE = "none"
"""What stands for the HTTP status of an answer that never came."""

_BUSY = frozenset({429, 500, 502, 503, 504})
_NO_ANSWER = (TimeoutError, aiohttp.ClientError, OSError, ValueError, _config.ConfigException)
"""What a request ends in when nobody answers, the answer is no JSON, or the token cannot be read just now."""


class AheadError(UnavailableError):
    """The API server's cache has not come as far as the resourceVersion that was asked for: ask without the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds that one request may take, and seconds after which a failing one is not tried again."""

    request_seconds: float = REQUEST_TIMEOUT_SECONDS
    retry_seconds: float = RETRY_FOR_SECONDS


@dataclass(frozen=True, slots=True)
class Session:
    """Plain HTTP to the API server, for a library that speaks for itself: every request is signed as ours are."""

    server: str
    http: aiohttp.ClientSession


class Transport:
    """Sends requests with the identity of a kubeconfig or of the pod it runs in.

    Args:
        client: The official client, which signs and encrypts.
        patience: How long requests may take.
        answered: Called with verb and HTTP status of every answer, or NO_CODE where there was none.
    """

    def __init__(self, client: Any, patience: Patience, answered: Callable[[str, str], None]) -> None:
        self._client = client
        self._patience = patience
        self._answered = answered
        self._sessions: list[aiohttp.ClientSession] = []

    @classmethod
    async def connect(
        cls, kubeconfig: Path | None, context: str | None, patience: Patience, answered: Callable[[str, str], None]
    ) -> "Transport":
        """Prepare a client; nothing is sent yet.

        Args:
            kubeconfig: File to use. None means the pod's service account where there is one, else the default
                kubeconfig of the user.
            context: Context within the kubeconfig; None means its current one.
            patience: See the class.
            answered: See the class.

        Raises:
            NoClusterError: There is no usable kubeconfig.
        """
        configuration = _client.Configuration()
        try:
            if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
                _config.load_incluster_config(client_configuration=configuration)
            else:
                _require_file(kubeconfig)
                await _config.load_kube_config(
                    config_file=str(kubeconfig) if kubeconfig else None,
                    context=context,
                    client_configuration=configuration,
                )
        except (_config.ConfigException, OSError, yaml.YAMLError) as error:
            raise NoClusterError(f"cannot use {kubeconfig or 'the default kubeconfig'} because {error}") from error
        # Old authorities lack extensions that Python 3.13 and later insist on; chain and name are still verified.
        configuration.disable_strict_ssl_verification = True
        configuration.retries = None  # one layer of retries, below
        return cls(_client.ApiClient(configuration), patience, answered)

    async def close(self) -> None:
        """Close the connections."""
        for session in self._sessions:
            await session.close()
        await self._client.close()

    def session(self) -> Session:
        """Open a session with the same login: the same authority and certificates, and the token as it is by then."""
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
            trust_env=True,
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
    ) -> Any:
        """Send a request and return the JSON of the answer; every request we make is safe to repeat.

        A create is repeatable because names are deterministic: the second one conflicts, as it would after a
        crash between the two.

        Raises:
            NotFoundError, ConflictError, ExpiredError, RejectedError, UnavailableError: As in ``ports.kube``.
        """
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(_may_pass),
            wait=_wait,
            stop=tenacity.stop_before_delay(self._patience.retry_seconds),
            reraise=True,
        )
        return await retrying(self._send, method, path, dict(query or {}), body, content_type)

    async def lines(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Follow an answer that does not end, line by line.

        It is never tried again by itself, for only the caller knows from where to go on.

        Raises:
            ForbiddenError, ExpiredError, UnavailableError, RejectedError: As in ``ports.kube``.
        """
        what, rest = f"watch {path}", b""
        timeout = aiohttp.ClientTimeout(connect=self._patience.request_seconds, sock_read=SILENCE_SECONDS)
        try:
            request = await self._signed("GET", path, dict(query), None, "application/json")
            response = await self._client.call_api(*request, _request_timeout=timeout)
        except _NO_ANSWER as error:
            self._answered(WATCH, NO_CODE)
            raise UnavailableError(f"cannot {what} because the API server does not answer ({error!r})") from error
        self._answered(WATCH, str(response.status))
        try:
            if response.status >= 400:
                raise _error(what, response.status, await response.read(), response.getheaders().get("Retry-After"))
            async for chunk in response.response.content.iter_any():
                *complete, rest = (rest + chunk).split(b"\n")
                for line in complete:
                    yield line
        except TimeoutError:
            return  # silent for longer than bookmarks are apart; the caller goes on over a new connection
        except _NO_ANSWER as error:
            raise UnavailableError(f"cannot {what} because the connection broke ({error!r})") from error
        finally:
            response.response.close()

    async def _send(self, method: str, path: str, query: dict[str, str], body: object, content_type: str) -> Any:
        what = f"{method} {path}"
        try:
            request = await self._signed(method, path, query, body, content_type)
            response = await self._client.call_api(*request, _request_timeout=self._patience.request_seconds)
            payload = await response.read()
            if response.status < 400:
                answer = json.loads(payload)
        except _NO_ANSWER as error:
            self._answered(method, NO_CODE)
            raise UnavailableError(f"cannot {what} because the API server does not answer ({error!r})") from error
        self._answered(method, str(response.status))
        if response.status < 400:
            return answer
        raise _error(what, response.status, payload, response.getheaders().get("Retry-After"))

    async def _signed(self, method: str, path: str, query: dict[str, str], body: object, content_type: str) -> Any:
        return await self._client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params={"Content-Type": content_type, "Accept": "application/json"},
            body=body,
            auth_settings=["BearerToken"],
        )


def _require_file(kubeconfig: Path | None) -> None:
    """Make sure that there is a kubeconfig; without one the library says much, and nothing that helps."""
    paths = str(kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config").split(os.pathsep)
    if not any(Path(path).expanduser().exists() for path in paths):
        raise FileNotFoundError(f"there is no file {' or '.join(paths)}")


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, UnavailableError) and not isinstance(error, AheadError)


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.after if isinstance(error, UnavailableError) else 0.0
    return max(asked, tenacity.wait_random_exponential(multiplier=0.2, max=5)(state))


def _error(what: str, status: int, payload: bytes, retry_after: str | None) -> NodeUpgradeError:
    return failure(what, status, _said(payload), retry_after)


def failure(what: str, status: int, said: str, retry_after: str | None = None) -> NodeUpgradeError:
    """Say in the port's words what an HTTP status, or the code of a Status object, means."""
    message = f"cannot {what} because the API server answers {status}: {said}"
    match status:
        case 404:
            return NotFoundError(message)
        case 400 | 422:
            return InvalidError(message)
        case 401 | 403:
            return ForbiddenError(message)
        case 409:
            return ConflictError(message)
        case 410:
            return ExpiredError(message)
        case 504 if "Too large resource version" in said:
            return AheadError(message)
        case _ if status in _BUSY:
            seconds = retry_after if retry_after and re.fullmatch(r"\d{1,3}", retry_after) else "0"
            return UnavailableError(message, float(seconds))
        case _:
            return RejectedError(message)


def _said(payload: bytes) -> str:
    try:
        return str(json.loads(payload)["message"])
    except (ValueError, KeyError, TypeError):
        return payload[:200].decode(errors="replace")
