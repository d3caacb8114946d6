"""A web server on loopback that answers as a test says."""

from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

CONTENT = b"kubelet" * 1000


Answer = Callable[[BaseHTTPRequestHandler, int], None]


def sends(content: bytes, *, status: int = 200, length: int | None = None, location: str = "") -> Answer:
    def answer(request: BaseHTTPRequestHandler, _number: int) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(content) if length is None else length))
        if location:
            request.send_header("Location", location)
        request.end_headers()
        request.wfile.write(content)

    return answer


class Server:
    """A web server that answers as told."""

    def __init__(self) -> None:
        self.answer: Answer = sends(CONTENT)
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                outer.answer(self, outer.requests)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/kubelet"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    thread = Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()
