"""gRPC against a server that comes, goes, and is not ready."""

import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.host.files.mounted import HostFiles
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.runtimes.containerd.containerd import ContainerdRuntime
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.client import CriClient
from nodeupgrade.node.runtimes.cri.connection import Connection, NotFound, UnaryMethod, Unimplemented

Answer = Callable[[str, grpc.ServicerContext], bytes]
VERSION = UnaryMethod("/runtime.v1.RuntimeService/Version", pb.VersionResponse)


class Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # not generic when it runs
    """Answers every call by one function of its path."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        path = str(details.method)
        return grpc.unary_unary_rpc_method_handler(lambda _request, context: self._answer(path, context))


@contextmanager
def serving(socket: Path, answer: Answer) -> Iterator[None]:
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    server.add_generic_rpc_handlers((Handler(answer),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


def failing(code: grpc.StatusCode, details: str) -> Answer:
    def answer(_path: str, context: grpc.ServicerContext) -> bytes:
        context.abort(code, details)
        raise AssertionError("abort raises")

    return answer


def runtime_named(name: str) -> Answer:
    return lambda _path, _context: pb.VersionResponse(runtime_name=name).SerializeToString()


@pytest.fixture
def socket(tmp_path: Path) -> Path:
    return tmp_path / "runtime.sock"


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        (grpc.StatusCode.UNAVAILABLE, "server is not initialized yet: unavailable", Transient),
        (grpc.StatusCode.UNKNOWN, "server is not initialized yet", Transient),
        (grpc.StatusCode.UNKNOWN, "Stream removed", Transient),
        (
            grpc.StatusCode.UNKNOWN,
            "creating container info: getting container metadata: identifier is not a layer, image, or container",
            NotFound,
        ),
        (grpc.StatusCode.UNKNOWN, "no such image", StepFailed),
        (grpc.StatusCode.NOT_FOUND, "container x", NotFound),
        (grpc.StatusCode.UNIMPLEMENTED, "unknown service", Unimplemented),
        (grpc.StatusCode.PERMISSION_DENIED, "no", StepFailed),
    ],
)
def test_each_failure_has_its_kind(
    socket: Path, code: grpc.StatusCode, details: str, expected: type[Exception]
) -> None:
    with serving(socket, failing(code, details)), Connection(socket, patience=0) as connection:
        with pytest.raises(expected) as caught:
            connection.ask(VERSION, pb.VersionRequest())
        assert type(caught.value) is expected
        assert details in str(caught.value)


def test_nobody_there_is_transient_and_told_at_once(socket: Path) -> None:
    began = time.monotonic()
    with Connection(socket, patience=0) as connection, pytest.raises(Transient):
        connection.ask(VERSION, pb.VersionRequest())
    assert time.monotonic() - began < 5


def test_a_server_that_does_not_answer_is_given_up(socket: Path) -> None:
    def slow(_path: str, context: grpc.ServicerContext) -> bytes:
        while context.is_active():
            time.sleep(0.01)
        return b""

    with serving(socket, slow), Connection(socket, timeout=0.2, patience=0) as connection, pytest.raises(Transient):
        connection.ask(VERSION, pb.VersionRequest())


def test_the_same_connection_reaches_a_server_that_was_replaced(socket: Path) -> None:
    with Connection(socket, patience=0) as connection:
        with serving(socket, runtime_named("first")):
            assert connection.ask(VERSION, pb.VersionRequest()).runtime_name == "first"
        for _ in range(3):
            with pytest.raises(Transient):
                connection.ask(VERSION, pb.VersionRequest())
        with serving(socket, runtime_named("second")):
            assert connection.ask(VERSION, pb.VersionRequest()).runtime_name == "second"


def test_readings_wait_for_a_server_that_is_about_to_be_ready(socket: Path) -> None:
    calls = 0

    def slowly_ready(path: str, context: grpc.ServicerContext) -> bytes:
        nonlocal calls
        calls += 1
        if calls < 4:
            context.abort(grpc.StatusCode.UNKNOWN, "server is not initialized yet")
        return runtime_named("ready")(path, context)

    with serving(socket, slowly_ready), Connection(socket, patience=30) as connection:
        assert connection.ask(VERSION, pb.VersionRequest()).runtime_name == "ready"


def test_the_newest_version_of_the_cri_is_spoken(socket: Path) -> None:
    asked: list[str] = []

    def only_alpha(path: str, context: grpc.ServicerContext) -> bytes:
        asked.append(path)
        if "runtime.v1." in path:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown service runtime.v1.RuntimeService")
        return runtime_named("old")(path, context)

    with serving(socket, only_alpha), Connection(socket) as connection:
        client = CriClient(connection)
        assert client.version().runtime_name == "old"
        assert client.served() == ("v1alpha2",)
    assert asked[-1] == "/runtime.v1alpha2.RuntimeService/Version"


def test_a_runtime_without_cri_is_named_as_such(socket: Path) -> None:
    with (
        serving(socket, failing(grpc.StatusCode.UNIMPLEMENTED, "unknown service")),
        Connection(socket) as connection,
        pytest.raises(StepFailed, match="is its CRI plugin disabled"),
    ):
        CriClient(connection).version()


def test_waiting_ends_when_the_cri_answers_and_not_when_it_merely_listens(socket: Path) -> None:
    ready_at = time.monotonic() + 0.5

    def recovering(path: str, context: grpc.ServicerContext) -> bytes:
        if time.monotonic() < ready_at:
            context.abort(grpc.StatusCode.UNKNOWN, "server is not initialized yet")
        return b"" if path.endswith("ListContainers") else runtime_named("containerd")(path, context)

    runtime = ContainerdRuntime(socket, processes=ProcessTable(), files=HostFiles(), services=SystemdManager())
    with serving(socket, recovering):
        runtime.wait_until_answering(30)
        assert time.monotonic() >= ready_at
    with pytest.raises(Transient, match="did not answer within"):
        runtime.wait_until_answering(0.1)
    runtime.close()
