"""gRPC over a unix socket, with deadlines on every call and errors of our own.

A channel that lost its server waits a second and more before it tries again, and everything it is asked
meanwhile fails. A runtime restart is over sooner than that, so the channel is thrown away as soon as a call
finds the server unavailable, and the next call opens a new one.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import grpc
from google.protobuf.message import Message
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from nodeupgrade.domain.errors import StepFailed, Transient

A = TypeVar("A", bound=Message)
R = TypeVar("R")

MESSAGE_LIMIT = 64 * 1024 * 1024
OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    # A new channel must not inherit the back-off of the one it replaces.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
)


class Unimplemented(StepFailed):
    """The server does not know the method."""


class NotFound(StepFailed):
    """The server does not hold the thing asked for."""


@dataclass(frozen=True, slots=True)
class Method(Generic[A]):
    """One unary method: its path on the wire and the type of its answer."""

    path: str
    answer: type[A]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One unary call as it goes over the wire: the method's path, and the message with its frame."""

    path: str
    frame: bytes


def framed(message: Message) -> bytes:
    """A message as gRPC sends it: not compressed, and with its length before it."""
    body = message.SerializeToString()
    return b"\0" + len(body).to_bytes(4, "big") + body


class Connection:
    """A connection that survives restarts of the server.

    Args:
        socket: path of the server's unix socket.
        metadata: sent with every call.
        timeout: seconds for one call.
        patience: seconds during which an idempotent call is repeated while the server is unavailable.
    """

    def __init__(
        self, socket: Path, *, metadata: tuple[tuple[str, str], ...] = (), timeout: float = 10.0, patience: float = 2.0
    ) -> None:
        self._target = f"unix:{socket}"
        self._metadata = metadata
        self._timeout = timeout
        self._patience = patience
        self._channel: grpc.Channel | None = None
        self._lock = threading.Lock()

    def start(self, method: Method[A], request: Message, *, timeout: float | None = None) -> Callable[[], A]:
        """Send one call without waiting; calling what is returned waits for the answer and gives it.

        Raises (on collecting the answer):
            Transient: no answer in time, or the server is not (yet) there.
            NotFound, Unimplemented, StepFailed: the server answered with an error.
        """
        with self._lock:
            if self._channel is None:
                self._channel = grpc.insecure_channel(self._target, options=OPTIONS)
            call = self._channel.unary_unary(
                method.path, request_serializer=_serialized, response_deserializer=method.answer.FromString
            )
        future = call.future(request, timeout=timeout or self._timeout, metadata=self._metadata)

        def collect() -> A:
            with self._translated(method.path):
                answer: A = future.result()
                return answer

        return collect

    def call(self, method: Method[A], request: Message, *, timeout: float | None = None) -> A:
        """Make one call.

        Raises:
            As start().
        """
        return self.start(method, request, timeout=timeout)()

    def ask(self, method: Method[A], request: Message) -> A:
        """Make one idempotent call, repeated for a short while when the server is not there.

        Raises:
            As start().
        """
        return self.patiently(lambda: self.call(method, request))

    def ask_all(self, method: Method[A], requests: Iterable[Message]) -> list[A | None]:
        """Make many idempotent calls at once; ``None`` stands for each that found nothing.

        Raises:
            As start().
        """
        questions = list(requests)
        return self.patiently(lambda: self._pipeline(method, questions))

    def call_all(self, method: Method[A], requests: Iterable[Message]) -> list[A | None]:
        """Make many calls at once, each exactly once; ``None`` stands for each that found nothing.

        Raises:
            As start(). Every call has been sent by then, and any of them may have taken effect.
        """
        return self._pipeline(method, list(requests))

    def patiently(self, question: Callable[[], R]) -> R:
        """Repeat something idempotent for a short while when the server is not there.

        Raises:
            As ``question`` does, Transient at the end of the patience.
        """
        retrying = Retrying(
            retry=retry_if_exception_type(Transient),
            stop=stop_after_delay(self._patience),
            wait=wait_fixed(0.05),
            reraise=True,
        )
        return retrying(question)

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _pipeline(self, method: Method[A], requests: list[Message]) -> list[A | None]:
        return [_unless_missing(answer) for answer in [self.start(method, request) for request in requests]]

    @contextlib.contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except grpc.FutureCancelledError as error:
            raise Transient(f"{path} was cut off because the connection was closed") from error
        except grpc.RpcError as error:
            code, details = error.code(), error.details() or ""
            text = f"{path} on {self._target} failed with {code.name}: {details}"
            match code:
                case grpc.StatusCode.NOT_FOUND:
                    raise NotFound(text) from error
                case grpc.StatusCode.UNIMPLEMENTED:
                    raise Unimplemented(text) from error
                case grpc.StatusCode.UNAVAILABLE | grpc.StatusCode.CANCELLED:
                    self.close()
                    raise Transient(text) from error
                case grpc.StatusCode.DEADLINE_EXCEEDED:
                    raise Transient(text) from error
                case grpc.StatusCode.UNKNOWN if "not initialized" in details or "Stream removed" in details:
                    raise Transient(text) from error
                case _:
                    raise StepFailed(text) from error


def _unless_missing(answer: Callable[[], A]) -> A | None:
    try:
        return answer()
    except NotFound:
        return None


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
