"""gRPC over a unix socket, with a deadline on every call and errors translated to the project's own.

A gRPC channel that lost its server fails all calls for a second or more. A runtime restarts faster, so the channel is
dropped as soon as a call finds the server unavailable, and the next call opens a new one.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Generic, Self, TypeVar

import grpc
from google.protobuf.message import Message

from nodeupgrade.errors import StepFailed, Transient, Unimplemented
from nodeupgrade.node.host.retries import retry_for
from nodeupgrade.node.runtimes.cri.messages import read

A = TypeVar("A", bound=Message)
R = TypeVar("R")

BEING_REMOVED = "identifier is not a layer, image, or container"
"""Part of CRI-O's error for a container that it still lists, but whose storage is gone."""
MESSAGE_LIMIT = 64 * 1024 * 1024
OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    # A new channel must not inherit the back-off of its predecessor.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.default_authority", "localhost"),
    ("grpc.enable_http_proxy", 0),
)
for _module in ("grpc._channel", "grpc._utilities"):
    import_module(_module)  # otherwise imported on first use, when somebody may have removed the bundle


class NotFound(StepFailed):
    """The requested object does not exist."""


@dataclass(frozen=True, slots=True)
class UnaryMethod(Generic[A]):
    """A unary method: its path on the wire and the type of its answer."""

    path: str
    answer: type[A]


class Connection:
    """A connection that survives restarts of the server. All calls raise the errors of start().

    Args:
        socket: path of the server's unix socket.
        metadata: metadata of every call.
        timeout: seconds for one call.
        patience: seconds for which an idempotent call is retried while the server is unavailable.
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

    def start(self, method: UnaryMethod[A], request: Message, *, timeout: float | None = None) -> Callable[[], A]:
        """Send a call without waiting; the returned function waits for the answer and returns it.

        Raises:
            Transient: it cannot be sent; from the returned function: the server is unavailable, or does not answer in
                time.
            NotFound, Unimplemented, StepFailed: the server answered with an error.
        """
        _require_thread(method.path)
        return self._send(method, request, timeout or self._timeout)

    def _send(self, method: UnaryMethod[A], request: Message, timeout: float) -> Callable[[], A]:
        with self._lock:
            if self._channel is None:
                self._channel = grpc.insecure_channel(self._target, options=OPTIONS)
            call = self._channel.unary_unary(
                method.path, request_serializer=_serialized, response_deserializer=partial(read, method.answer)
            )
        future = call.future(request, timeout=timeout, metadata=self._metadata)

        def collect() -> A:
            with self._translated(method.path):
                answer: A = future.result()
                return answer

        return collect

    def call(self, method: UnaryMethod[A], request: Message, *, timeout: float | None = None) -> A:
        """Make one call."""
        return self.start(method, request, timeout=timeout)()

    def ask(self, method: UnaryMethod[A], request: Message) -> A:
        """Make one idempotent call, with retries."""
        return self.retry(lambda: self.call(method, request))

    def ask_all(self, method: UnaryMethod[A], requests: Iterable[Message]) -> list[A | None]:
        """Make many idempotent calls at once, with retries; ``None`` stands for an object that does not exist."""
        pending = list(requests)
        return self.retry(lambda: self._pipeline(method, pending))

    def call_all(self, method: UnaryMethod[A], requests: Iterable[Message]) -> list[A | None]:
        """Make many calls at once, without retries; ``None`` stands for an object that does not exist.

        On an error, all calls have been sent, and any of them may have taken effect.
        """
        return self._pipeline(method, list(requests))

    def retry(self, call: Callable[[], R]) -> R:
        """Call an idempotent function, and retry it on Transient until the patience runs out."""
        return retry_for(call, self._patience)

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _pipeline(self, method: UnaryMethod[A], requests: list[Message]) -> list[A | None]:
        if requests:
            _require_thread(method.path)  # once: it takes 60 µs
        answers = [self._send(method, request, self._timeout) for request in requests]
        return [_unless_missing(answer) for answer in answers]

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
                case grpc.StatusCode.UNKNOWN if BEING_REMOVED in details:
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


def _require_thread(path: str) -> None:
    """Require that a thread can be begun, as gRPC does for the answers of a channel.

    A channel for which it could not takes later calls, never answers them, whatever their deadline, and cannot be
    closed.
    """
    try:
        (thread := threading.Thread(target=lambda: None)).start()
        thread.join()
    except RuntimeError as error:
        raise Transient(f"{path} cannot be sent: {error}") from error


def _unless_missing(answer: Callable[[], A]) -> A | None:
    try:
        return answer()
    except NotFound:
        return None


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()
