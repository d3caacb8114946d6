"""Tests for gRPC calls to a server that restarts or is not ready."""

import threading
import time
from pathlib import Path

import grpc
import pytest

from nodeupgrade.errors import StepFailed, Transient, Unimplemented
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.connection import Connection, NotFound, UnaryMethod
from tests.builders.cri_server import failing, runtime_named, serving

VERSION = UnaryMethod("/runtime.v1.RuntimeService/Version", pb.VersionResponse)


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


def test_where_no_thread_was_left_the_next_call_is_answered(socket: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC has a thread for the answers of each channel, and begins it with the first call."""

    def refuse(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    with serving(socket, runtime_named("there")), Connection(socket, timeout=5, patience=0) as connection:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refuse)
            with pytest.raises(Transient, match="can't start new thread"):
                connection.ask(VERSION, pb.VersionRequest())
        assert connection.ask(VERSION, pb.VersionRequest()).runtime_name == "there"


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
