"""Asks the running CRI-O about itself over HTTP, on the same socket as the CRI."""

import http.client
import re
import time
from pathlib import Path

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.http_over_socket import UnixConnection
from nodeupgrade.node.runtimes.crio import configuration
from nodeupgrade.text import parse_toml

TIMEOUT_SECONDS = 5.0
CONFIG, GOROUTINES = "/config", "/debug/goroutines"
SILENT = re.compile(r"^goroutine (\d+) \[.*(?:\n.+)*?\n\S+/cmux\.\(\*cMux\)\.serve\(", re.ASCII | re.MULTILINE)
"""The goroutine of a client that has made no call, so CRI-O does not know whether it speaks HTTP/1 or gRPC."""
TO_CALL_SECONDS = 0.5
"""How long a client may take from connecting to its first call."""


def fetch_configuration(path: Path) -> configuration.CrioConfiguration:
    """Ask the CRI-O that listens on a socket how it is configured.

    Raises:
        Transient: it does not answer.
        StepFailed: its answer is unusable.
    """
    text = _get(path, CONFIG)
    try:
        found = configuration.parse_configuration(parse_toml(text))
    except (ValueError, KeyError, TypeError) as error:
        raise StepFailed(f"cannot read the configuration of CRI-O on {path}: {type(error).__name__} {error}") from error
    if not found.root.startswith("/") or not found.driver or "/" in found.driver:
        raise StepFailed(f"cannot find the containers of CRI-O: its storage is {found.root!r} and {found.driver!r}")
    return found


def silent_clients(path: Path, *, patience: float = TO_CALL_SECONDS) -> int:
    """Return how many clients are connected to the CRI-O that listens on a socket without having made a call.

    A stopping CRI-O waits for each of them without a limit: a client's first bytes distinguish HTTP/1 and gRPC (cmux).
    They are found by its goroutines; a CRI-O that does not show these counts as having no such client.

    Args:
        patience: seconds that a client has to make a call.

    Raises:
        Transient: it does not answer.
    """
    if not (before := _silent(path)):
        return 0
    time.sleep(patience)
    return len(before & _silent(path))


def _silent(path: Path) -> frozenset[str]:
    try:
        return frozenset(SILENT.findall(_get(path, GOROUTINES).decode(errors="replace")))
    except StepFailed:
        return frozenset()


def _get(path: Path, what: str) -> bytes:
    connection = UnixConnection(path, TIMEOUT_SECONDS)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Transient(f"GET {what} on {path} failed: {error}") from error
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise StepFailed(f"GET {what} on {path} was answered with {answer.status} {answer.reason}")
    return body
