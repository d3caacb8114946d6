"""HTTP to the API server: the official client's transport, raw JSON, our errors, and the retries."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import tenacity
import yaml
from kubernetes.aio import client as untyped_client
from kubernetes.aio import config as untyped_config

from nodeupgrade.ports.kube import (
    ConflictError,
    ForbiddenError,
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

_BUSY = frozenset({429, 500, 502, 503, 504})


class BusyError(UnavailableError):
    """The API server asked to come back after ``after`` seconds (0: whenever)."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Seconds that one request may take, and seconds after which a failing one is not tried again."""

    request_seconds: float = REQUEST_TIMEOUT_SECONDS
    retry_seconds: float = RETRY_FOR_SECONDS


class Transport:
    """Sends requests with the identity of a kubeconfig or of the pod it runs in."""

    def __init__(self, client: Any, patience: Patience) -> None:
        self._client = client
        self._patience = patience

    @classmethod
    async def connect(cls, kubeconfig: Path | None, context: str | None, patience: Patience) -> Transport:
        """Prepare a client; nothing is sent yet.

        Args:
            kubeconfig: File to use. None means the pod's service account where there is one, else the default
                kubeconfig of the user.
            context: Context within the kubeconfig; None means its current one.
            patience: How long requests may take.

        Raises:
            NoClusterError: There is no usable kubeconfig.
        """
        configuration = _client.Configuration()
        try:
            if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
                _config.load_incluster_config(client_configuration=configuration)
            else:
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
        return cls(_client.ApiClient(configuration), patience)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

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
            NotFoundError, ConflictError, RejectedError, UnavailableError: As in ``ports.kube``.
        """
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(BusyError),
            wait=_wait,
            stop=tenacity.stop_after_delay(self._patience.retry_seconds),
            reraise=True,
        )
        return await retrying(self._send, method, path, dict(query or {}), body, content_type)

    async def _send(self, method: str, path: str, query: dict[str, str], body: object, content_type: str) -> Any:
        client, what = self._client, f"{method} {path}"
        headers = {"Content-Type": content_type, "Accept": "application/json"}
        request = await client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = await client.call_api(*request, _request_timeout=self._patience.request_seconds)
            payload = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise BusyError(f"cannot {what} because the API server does not answer ({error!r})") from error
        if response.status < 400:
            return json.loads(payload)
        raise _error(what, response.status, payload, response.getheaders().get("Retry-After"))


def _wait(state: tenacity.RetryCallState) -> float:
    failure = state.outcome.exception() if state.outcome else None
    asked = failure.after if isinstance(failure, BusyError) else 0.0
    return max(asked, tenacity.wait_random_exponential(multiplier=0.2, max=5)(state))


def _error(what: str, status: int, payload: bytes, retry_after: str | None) -> Exception:
    message = f"cannot {what} because the API server answers {status}: {_said(payload)}"
    match status:
        case 404:
            return NotFoundError(message)
        case 409:
            return ConflictError(message)
        case 401 | 403:
            return ForbiddenError(message)
        case _ if status in _BUSY:
            seconds = retry_after if retry_after and re.fullmatch(r"\d{1,3}", retry_after) else "0"
            return BusyError(message, float(seconds))
        case _:
            return RejectedError(message)


def _said(payload: bytes) -> str:
    try:
        return str(json.loads(payload)["message"])
    except (ValueError, KeyError, TypeError):
        return payload[:200].decode(errors="replace")
