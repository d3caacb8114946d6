"""A gRPC server on a Unix socket that answers every call from a function."""

from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path

import grpc

from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb

Answer = Callable[[str, grpc.ServicerContext], bytes]


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
