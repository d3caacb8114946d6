"""Downloads a file by HTTP or HTTPS and checks its digest, the only thing that makes it trusted."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from nodeupgrade.adapters.files.atomic import fresh_beside, read_chunks, write_all
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.domain.errors import Refused, Transient
from nodeupgrade.ports.node.disk import Disk

CHUNK = 1024 * 1024
LIMIT = 1024 * 1024 * 1024
"""Far above any kubelet (70 to 120 MB), far below what fills a node's disk."""
WORTH_RETRYING = frozenset({408, 425, 429, 500, 502, 503, 504})


def download(
    url: str,
    target: Path,
    expected: Digest,
    *,
    limit: int = LIMIT,
    timeout: float = 30.0,
    attempts: int = 4,
    pause: float = 1.0,
    progress: Callable[[int], None] = lambda _received: None,
    disk: Disk = os,
) -> None:
    """Download ``url`` to ``target`` with mode 0755. The target appears complete and verified, or not at all.

    Proxies in the environment are used. A target that already has the expected digest is left alone.

    Args:
        url: http or https; redirects to either are followed.
        target: path as this process sees it; its directory must exist.
        expected: SHA-256 of the content.
        limit: maximum size in bytes.
        timeout: maximum seconds without a byte received.
        attempts: maximum number of attempts when the server or the connection fails.
        pause: seconds before the second attempt, doubled each time.
        progress: called with the number of bytes received so far.
        disk: receives the system calls.

    Raises:
        Refused: with DIGEST_MISMATCH if the content differs; with ARTIFACT_UNAVAILABLE if the server refuses,
            sends too much, or cannot be reached in any attempt.
        OSError: the target cannot be written.
    """
    if _digest(target, disk) == expected:
        return
    retrying = Retrying(
        retry=retry_if_exception_type(Transient),
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=pause, max=30),
        reraise=True,
    )
    try:
        with fresh_beside(target, mode=0o755, disk=disk) as fresh:
            actual = retrying(_fetch, url, fresh, disk=disk, limit=limit, timeout=timeout, progress=progress)
            if actual != expected:
                raise Refused(
                    Reason.DIGEST_MISMATCH,
                    f"cannot use {_redacted(url)} because its SHA-256 is {actual} instead of {expected}; "
                    "correct one of them",
                )
    except Transient as error:
        raise _refusal(url, str(error)) from error


def _fetch(url: str, fresh: int, *, disk: Disk, limit: int, timeout: float, progress: Callable[[int], None]) -> Digest:
    """Download to an open file, overwriting what an earlier attempt left in it, and return the digest."""
    digest = hashlib.sha256()
    received = 0
    disk.ftruncate(fresh, 0)
    disk.lseek(fresh, 0, os.SEEK_SET)
    try:
        with _opener().open(_request(url), timeout=timeout) as answer:
            announced = answer.headers.get("Content-Length")
            while chunk := answer.read(CHUNK):
                received += len(chunk)
                if received > limit:
                    raise _refusal(url, f"it is larger than {limit} bytes")
                digest.update(chunk)
                write_all(fresh, chunk, disk=disk)
                progress(received)
            if announced is not None and received != int(announced):
                raise Transient(f"the connection ended after {received} of {announced} bytes")
    except urllib.error.HTTPError as error:
        with error:
            if error.code in WORTH_RETRYING:
                raise Transient(f"the server answered {error.code} {error.reason}") from error
            raise _refusal(url, f"the server answered {error.code} {error.reason}") from error
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
        raise Transient(str(getattr(error, "reason", error)) or type(error).__name__) from error
    return Digest(digest.hexdigest())


def _request(url: str) -> urllib.request.Request:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise _refusal(url, "it is neither an http nor an https URL")
    return urllib.request.Request(url, headers={"User-Agent": "nodeupgrade", "Accept-Encoding": "identity"})  # noqa: S310


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener for HTTP and HTTPS only, so that no redirect leads to a local file or to FTP."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _refusal(url: str, why: str) -> Refused:
    return Refused(
        Reason.ARTIFACT_UNAVAILABLE,
        f"cannot fetch {_redacted(url)} because {why}; check the URL, the server, and the node's way to it",
    )


def _redacted(url: str) -> str:
    """Return the URL without parts that may be secret: user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _digest(path: Path, disk: Disk) -> Digest | None:
    digest = hashlib.sha256()
    try:
        for chunk in read_chunks(path, disk=disk):
            digest.update(chunk)
    except FileNotFoundError:
        return None
    return Digest(digest.hexdigest())
