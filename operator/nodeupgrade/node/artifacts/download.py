"""Downloads a file by HTTP or HTTPS and checks its digest, the only thing that makes it trusted.

Each address is checked before the connection, and only that address is connected to, whatever its name resolves to a
moment later or wherever a redirect leads. A proxy resolves names itself; then only addresses in URLs are checked, and
the proxy's own address is not.
"""

import hashlib
import http.client
import io
import os
import socket
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import Refused, Transient
from nodeupgrade.node.host.files.atomic import fresh_beside, write_all
from nodeupgrade.node.host.files.files import LARGEST_KUBELET
from nodeupgrade.node.host.files.reading import digest_of
from nodeupgrade.node.host.files.system_calls import Disk
from nodeupgrade.sources.download_addresses import AddressPolicy

CHUNK = 1024 * 1024
TOTAL_SECONDS = 600.0
"""Enough for a kubelet of 120 MB by 2 Mbit/s, and less than a node's upgrade may take by default."""
WORTH_RETRYING = frozenset({408, 425, 429, 500, 502, 503, 504})


def download(
    url: str,
    target: Path,
    expected: Digest,
    reach: AddressPolicy,
    *,
    limit: int = LARGEST_KUBELET,
    timeout: float = 30.0,
    total: float = TOTAL_SECONDS,
    attempts: int = 4,
    pause: float = 1.0,
    disk: Disk = os,
) -> None:
    """Download ``url`` to ``target`` with mode 0755. The target appears complete and verified, or not at all.

    Proxies in the environment are used. A target that already has the expected digest is left alone.

    Args:
        url: http or https; redirects to either are followed.
        target: path as this process sees it; its directory must exist.
        expected: SHA-256 of the content. Messages omit the actual one, which would reveal what a server answers.
        reach: what may be connected to.
        limit: maximum size in bytes.
        timeout: maximum seconds without a byte received.
        total: maximum seconds for all attempts, however slowly bytes are received.
        attempts: maximum number of attempts when the server or the connection fails.
        pause: seconds before the second attempt, doubled each time.
        disk: receives the system calls.

    Raises:
        Refused: with DIGEST_MISMATCH if the content differs; with ARTIFACT_UNAVAILABLE if the server refuses,
            sends too much, or cannot be reached in any attempt.
        OSError: the target cannot be written.
    """
    with suppress(FileNotFoundError):
        if digest_of(target, disk=disk) == expected:
            return
    retrying = Retrying(
        retry=retry_if_exception_type(Transient),
        stop=stop_after_attempt(attempts),
        wait=wait_exponential(multiplier=pause, max=30),
        reraise=True,
    )
    try:
        with fresh_beside(target, mode=0o755, disk=disk) as fresh:
            opener = _opener(reach, time.monotonic() + total)
            actual = retrying(_fetch, url, fresh, opener, disk=disk, limit=limit, timeout=timeout)
            if actual != expected:
                raise Refused(
                    Reason.DIGEST_MISMATCH,
                    f"cannot use {_redacted(url)} because its SHA-256 is not {expected}; correct one of them",
                )
    except Transient as error:
        raise _refusal(url, str(error)) from error
    except TooSlowError as error:
        raise _refusal(url, f"it was not complete after {total:g} s") from error


def _fetch(
    url: str, fresh: int, opener: urllib.request.OpenerDirector, *, disk: Disk, limit: int, timeout: float
) -> Digest:
    """Download to an open file, overwriting what an earlier attempt left in it, and return the digest."""
    digest = hashlib.sha256()
    received = 0
    disk.ftruncate(fresh, 0)
    disk.lseek(fresh, 0, os.SEEK_SET)
    try:
        with opener.open(_request(url), timeout=timeout) as answer:
            announced = answer.headers.get("Content-Length")
            while chunk := answer.read(CHUNK):
                received += len(chunk)
                if received > limit:
                    raise _refusal(url, f"it is larger than {limit} bytes")
                digest.update(chunk)
                write_all(fresh, chunk, disk=disk)
            if announced is not None and announced != str(received):
                raise Transient(f"the connection ended after {received} of {announced} bytes")
    except OutOfReachError as error:
        raise _refusal(url, str(error)) from error
    except urllib.error.HTTPError as error:
        with error:
            # The status's standard name, since the server's own text must not be revealed.
            answered = " ".join(
                ("the server answered", str(error.code), *filter(None, [http.client.responses.get(error.code)]))
            )
            if error.code in WORTH_RETRYING:
                raise Transient(answered) from error
            raise _refusal(url, answered) from error
    except http.client.HTTPException as error:
        raise Transient(f"the server does not answer in HTTP ({type(error).__name__})") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise Transient(str(getattr(error, "reason", error)) or type(error).__name__) from error
    return Digest(digest.hexdigest())


def _request(url: str) -> urllib.request.Request:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise _refusal(url, "it is neither an http nor an https URL")
    return urllib.request.Request(url, headers={"User-Agent": "nodeupgrade", "Accept-Encoding": "identity"})  # noqa: S310


def _opener(reach: AddressPolicy, ends: float) -> urllib.request.OpenerDirector:
    """Return an opener for HTTP and HTTPS only, so that no redirect leads to a local file or to FTP.

    It gives up at ``ends`` of the monotonic clock.
    """
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        _Handler(reach, ends),
        urllib.request.HTTPDefaultErrorHandler(),
        _RedirectHandler(reach),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


class OutOfReachError(Exception):
    """An address must not be connected to; the message says why."""


class TooSlowError(Exception):
    """The download has taken too long."""


class _RedirectHandler(urllib.request.HTTPRedirectHandler):
    def __init__(self, reach: AddressPolicy) -> None:
        self._reach = reach

    def redirect_request(  # noqa: PLR0917 - as in the base class
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        fp.close()  # or all that comes with the redirect would be read
        _require(self._reach.problem_of_url(newurl))
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self, reach: AddressPolicy, ends: float) -> None:
        super().__init__()
        self._reach, self._ends = reach, ends

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(_HttpConnection, req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(_HttpsConnection, req)

    def _open(self, kind: "type[_HttpConnection]", req: urllib.request.Request) -> http.client.HTTPResponse:
        _require(self._reach.problem_of_url(req.full_url))
        return self.do_open(_guarded(kind, self._reach, self._ends, req), req)


def _guarded(
    kind: "type[_HttpConnection]", reach: AddressPolicy, ends: float, request: urllib.request.Request
) -> Callable[..., http.client.HTTPConnection]:
    """Return a factory of connections; those to a proxy, which the environment names, are not checked."""
    by_proxy = request.has_proxy() or getattr(request, "_tunnel_host", None) is not None

    class TimedResponse(_Response):
        until = ends

    def connection(host: str, **options: Any) -> http.client.HTTPConnection:  # Any: as the base class takes them
        made = kind(host, **options)
        made.reach = None if by_proxy else reach
        made.ends = ends
        made.response_class = TimedResponse
        return made

    return connection


class _HttpConnection(http.client.HTTPConnection):
    reach: AddressPolicy | None = None
    ends: float

    def connect(self) -> None:
        self._create_connection = _connecting(self.reach, self.ends)
        super().connect()


class _HttpsConnection(_HttpConnection, http.client.HTTPSConnection):
    pass


class _Response(http.client.HTTPResponse):
    """A response, all of which is read through a _Reader."""

    until: float

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: as the base class takes them
        super().__init__(*arguments, **options)
        self.fp = io.BufferedReader(_Reader(self.fp.detach(), self.until))


class _Reader(io.RawIOBase):
    """Reads from a connection until a moment, however slowly bytes come."""

    def __init__(self, connection: io.RawIOBase, ends: float) -> None:
        self._connection, self._ends = connection, ends

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:  # Any: as in the base class
        _require_time(self._ends)
        return self._connection.readinto(buffer)

    def close(self) -> None:
        self._connection.close()
        super().close()


def _connecting(reach: AddressPolicy | None, ends: float) -> Callable[..., socket.socket]:
    """Return a function like socket.create_connection that checks each address, and connects to no other."""

    def connect(place: tuple[str, int], timeout: float | None = None, source: Any = None) -> socket.socket:
        problems = list[Exception]()
        for *_, found in socket.getaddrinfo(*place, type=socket.SOCK_STREAM):
            address = str(found[0])
            _require_time(ends)
            _require(None if reach is None else reach.problem(ip_address(address)))
            try:
                made = socket.create_connection((address, place[1]), timeout, source)
            except OSError as error:
                problems.append(error)
                continue
            own = made.getsockname()[0] == made.getpeername()[0]
            if own and reach is not None and ip_address(address) not in reach.listed:
                made.close()
                raise OutOfReachError(f"{address} is the node's own address, and allowed.urls does not list it")
            return made
        raise problems[-1] if problems else OSError(f"{place[0]} has no address")

    return connect


def _require(problem: str | None) -> None:
    if problem is not None:
        raise OutOfReachError(problem)


def _require_time(ends: float) -> None:
    if time.monotonic() > ends:
        raise TooSlowError


def _refusal(url: str, why: str) -> Refused:
    return Refused(
        Reason.ARTIFACT_UNAVAILABLE,
        f"cannot fetch {_redacted(url)} because {why}; check the URL, the server, and the node's network",
    )


def _redacted(url: str) -> str:
    """Return the URL without parts that may be secret: user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
