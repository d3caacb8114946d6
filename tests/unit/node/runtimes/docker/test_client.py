"""What becomes of dockerd's answers, and of none."""

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.node.runtimes.docker.client import EngineClient

ANSWERS: dict[str, tuple[int, bytes]] = {
    "/version": (200, b'{"Version":"20.10.24"}'),
    "/info": (500, b'{"message":"busy"}'),
    "/containers/a/json": (200, b'{"Id":"a"}'),
    "/containers/odd/json": (200, b"[]"),
    "/containers/no/json": (200, b"<html>"),
    "/containers/denied/json": (403, b"denied"),
}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/containers/json"):
            status, body = 200, json.dumps([{"Id": "a"}]).encode()
        else:
            status, body = ANSWERS.get(self.path, (404, b"{}"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "unix"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[EngineClient]:
    with Server(str(tmp_path / "s"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield EngineClient(tmp_path / "s", patience=0)
        server.shutdown()
        thread.join()


def test_answers_are_read_and_what_is_gone_is_left_out(client: EngineClient) -> None:
    assert client.read("/version") == {"Version": "20.10.24"}
    assert client.containers() == [{"Id": "a"}]
    assert client.inspect(["a", "gone", "a"]) == {"a": {"Id": "a"}}


def test_a_server_in_trouble_may_be_asked_again_but_not_one_that_answers_something_else(client: EngineClient) -> None:
    with pytest.raises(Transient, match="status 500"):
        client.read("/info")
    for name, why in (("odd", "not with an object"), ("no", "something other than JSON"), ("denied", "status 403")):
        with pytest.raises(StepFailed, match=why):
            client.inspect([name])


def test_nobody_there_is_transient(tmp_path: Path) -> None:
    with pytest.raises(Transient, match="does not answer on"):
        EngineClient(tmp_path / "none", patience=0).read("/version")
