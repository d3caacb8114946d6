"""A few calls of the Docker Engine API, over its unix socket.

Every version of Docker serves paths without a version, and the fields that are read here (tried with 20.10, API 1.41).
See docs/decisions/docker.md for why this is not a library.
"""

import http.client
import json
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from nodeupgrade.api.limits import shorten
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.http_over_socket import UnixConnection
from nodeupgrade.node.host.retries import retry_for
from nodeupgrade.text import parse_json, trimmed

Document: TypeAlias = dict[str, Any]

TYPE_LABEL = "io.kubernetes.docker.type"
"""Label of every container that a kubelet creates, and of others; its value is CONTAINER or SANDBOX (listing.py)."""
KUBERNETES_FILTER = quote(json.dumps({"label": [TYPE_LABEL]}))
SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class EngineClient:
    """Reads from dockerd. All calls raise Transient if it does not answer, StepFailed if its answer is unusable."""

    path: Path  # dockerd's socket
    _: KW_ONLY
    timeout: float = 10.0  # seconds for one call
    patience: float = 2.0  # seconds for which a call is repeated while dockerd is unavailable

    def read(self, path: str) -> Document:
        """Return what dockerd reports about its program (``/version``), or its settings in effect (``/info``)."""
        return _object(path, self._ask(path))

    def containers(self, *, timeout: float | None = None, patience: float | None = None) -> list[Document]:
        """List all containers and sandboxes with the label of Kubernetes, running or not."""
        path = f"/containers/json?all=1&filters={KUBERNETES_FILTER}"
        found = self._ask(path, timeout=timeout, patience=patience)
        if not isinstance(found, list):
            raise StepFailed(f"dockerd answers {path} with {type(found).__name__}, not with a list")
        return [_object(path, entry) for entry in found]

    def inspect(self, ids: Iterable[str]) -> dict[str, Document]:
        """Return the details of containers by id; those that are gone are left out."""
        wanted = list(ids)
        answers = self._all([f"/containers/{quote(i)}/json" for i in wanted])
        return {i: _object(i, answer) for i, answer in zip(wanted, answers, strict=True) if answer is not None}

    def _ask(self, path: str, *, timeout: float | None = None, patience: float | None = None) -> Any:
        [answer] = self._all([path], timeout=timeout, patience=patience)
        if answer is None:
            raise StepFailed(f"dockerd does not know {path}")
        return answer

    def _all(self, paths: list[str], *, timeout: float | None = None, patience: float | None = None) -> list[Any]:
        """Send requests one after the other on one connection; ``None`` stands for what does not exist."""
        seconds = self.patience if patience is None else patience
        return retry_for(lambda: self._once(paths, timeout or self.timeout), seconds)

    def _once(self, paths: list[str], timeout: float) -> list[Any]:
        connection = UnixConnection(self.path, timeout)
        try:
            return [_answer(connection, path) for path in paths]
        except (OSError, http.client.HTTPException) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise Transient(f"dockerd does not answer on {self.path}: {reason}") from error
        finally:
            connection.close()


def _answer(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path)
    response = connection.getresponse()
    body = response.read()
    if response.status == http.client.NOT_FOUND:
        return None
    if response.status != http.client.OK:
        said = shorten(trimmed(body.decode(errors="replace")), 200)
        text = f"dockerd answers {path} with status {response.status}: {said}"
        raise Transient(text) if response.status >= SERVER_ERROR else StepFailed(text)
    try:
        return parse_json(body)
    except ValueError as error:
        raise StepFailed(f"dockerd answers {path} with something other than JSON: {error}") from error


def _object(what: str, value: Any) -> Document:
    if not isinstance(value, dict):
        raise StepFailed(f"dockerd answers {what} with {type(value).__name__}, not with an object")
    return value
