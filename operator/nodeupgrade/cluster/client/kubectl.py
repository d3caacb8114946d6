"""Requests to the API server by kubectl, for a person's machine that has it and not the official library.

The library is half of what an installation of everything takes (126 of 255 MB), and kubectl is where a kubeconfig is.
It logs in as it always does, and says in its own words what is wrong.
"""

import asyncio
import contextlib
import json
import os
import re
import urllib.parse
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.refusals import failure
from nodeupgrade.cluster.client.requesting import RequestingKube
from nodeupgrade.cluster.kube_api import (
    Keep,
    NoClusterError,
    NoCredentialsError,
    Resource,
    UnavailableError,
    WatchEvent,
)
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.text import one_line, parse_json, trimmed

PROGRAM = "kubectl"
LAST_WORDS_SECONDS = 1.0
"""Until the pipes of a killed kubectl are given up, whose end Python would complain of once the loop is closed."""

_REFUSAL = re.compile(r"Error from server(?: \(([A-Za-z]+)\))?: (.*)", re.DOTALL)
_INVALID = re.compile(r"(?:^| )(The (?:(?:\S* )?\"[^\"]*\"|request) is invalid\b.*)", re.ASCII | re.DOTALL)
"""What kubectl says instead for reason Invalid, after warnings: of a schema, and of most denials of a policy."""
_CODES = {
    "BadRequest": 400,
    "Unauthorized": 401,
    "Forbidden": 403,
    "NotFound": 404,
    "MethodNotAllowed": 405,
    "AlreadyExists": 409,
    "Conflict": 409,
    "Expired": 410,
    "Gone": 410,
    "TooManyRequests": 429,
    "InternalError": 500,
    "ServiceUnavailable": 503,
    "ServerTimeout": 504,
    "Timeout": 504,
}
"""HTTP status by the reason that the API server gives, which is all that kubectl shows."""


class Kubectl:
    """Sends requests as kubectl does. It asks nobody for a password, and repeats nothing.

    Args:
        kubeconfig: File to use, or several as in $KUBECONFIG; None means kubectl's default.
        context: Context within it; None means its current one.
        request_seconds: Timeout of one request.
        user: User to act as; None means the login's own.
    """

    def __init__(
        self, kubeconfig: Path | None, context: str | None, request_seconds: float, user: str | None = None
    ) -> None:
        self._environment = dict(os.environ)
        self._options = [f"--request-timeout={max(1, round(request_seconds))}s"]
        if kubeconfig is not None and os.pathsep in str(kubeconfig):
            self._environment["KUBECONFIG"] = str(kubeconfig)
        elif kubeconfig is not None:
            self._options.append(f"--kubeconfig={kubeconfig}")
        if context is not None:
            self._options.append(f"--context={context}")
        if user is not None:
            self._options.append(f"--as={user}")

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "application/json",
        largest: int | None = None,  # noqa: ARG002 - a person's machine has the memory
        keep: Keep | None = None,  # noqa: ARG002 - as above
    ) -> Json:
        """Send a request and return the JSON of the answer.

        Raises:
            NoClusterError, NotFoundError, ConflictError, RejectedError, UnavailableError: As in ``kube_api``.
        """
        url = urllib.parse.quote(path) + (f"?{urllib.parse.urlencode(query)}" if query else "")
        match method:
            case "GET":
                arguments, given = ["get", f"--raw={url}"], b""
            case "POST":
                arguments, given = ["create", f"--raw={url}", "--filename=-"], json.dumps(body).encode()
            case "PATCH" if content_type == "application/merge-patch+json":
                arguments, given = _patch(path, query or {}, body), b""
            case _:
                raise NotImplementedError(f"kubectl is not asked for {method} {content_type}")
        return await self._answer(f"{method} {path}", arguments, given)

    async def _answer(self, what: str, arguments: list[str], given: bytes) -> Json:
        argv, pipe = (PROGRAM, *self._options, *arguments), asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, env=self._environment, stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            cause = f"{PROGRAM} cannot be run ({error.strerror}), and the Python package kubernetes is not installed"
            raise NoClusterError(f"cannot {what} because {cause}") from error
        try:
            answer, said = await process.communicate(given)
        except asyncio.CancelledError:  # nobody waits for it any longer
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with contextlib.suppress(TimeoutError):  # a program that prints credentials may still hold the pipes
                async with asyncio.timeout(LAST_WORDS_SECONDS):
                    await process.communicate()
            raise
        if process.returncode:
            raise _error(what, said.decode(errors="replace"))
        try:
            return dict(parse_json(answer))
        except (ValueError, TypeError) as error:
            raise UnavailableError(f"cannot {what} because the API server's answer is not JSON") from error


class KubectlClient(RequestingKube):
    """What commands need of the API server, by kubectl; it is asked neither to watch nor to change a status."""

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        raise NotImplementedError(f"kubectl is not asked to watch {resource.plural}")


def _patch(path: str, query: Mapping[str, str], body: object) -> list[str]:
    """Return the arguments of a merge patch; kubectl patches no path."""
    _, _, group, version, plural, name = path.split("/", 5)  # of our own objects, which have no namespace
    manager = [f"--field-manager={query['fieldManager']}"] if "fieldManager" in query else []
    dry_run = ["--dry-run=server"] if "dryRun" in query else []
    patch = ["--type=merge", f"--patch={json.dumps(body)}", "--output=json"]
    return ["patch", *manager, *dry_run, *patch, "--", f"{plural}.{version}.{group}", name]


def _error(what: str, said: str) -> NodeUpgradeError:
    """Return the port's error for what kubectl said."""
    text = one_line(trimmed(said).partition("\n\n")[0])
    if (refusal := _REFUSAL.search(text)) is not None:
        return failure(what, _CODES.get(refusal[1] or "", 500), refusal[2])
    if (invalid := _INVALID.search(text)) is not None:
        return failure(what, 422, invalid[1])
    if "(Unauthorized)" in text:
        return failure(what, 401, text)
    if "getting credentials" in text:
        return NoCredentialsError(f"cannot {what} because {PROGRAM} gets no credentials: {text}")
    if text.startswith("error:"):
        return NoClusterError(f"cannot {what} because {PROGRAM} says: {trimmed(text.removeprefix('error:'))}")
    return UnavailableError(f"cannot {what} because the API server does not answer ({text})")
