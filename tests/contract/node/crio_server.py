"""A server that answers as CRI-O does, from the storage that it loaded at its start: CRI and HTTP on one socket."""

import contextlib
import json
import selectors
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from tests.contract.node.crio_storage import CREATED, Loaded, Storage, nanoseconds

VERSION = "1.33.13"
SERVICE = "/runtime.v1.RuntimeService/"
STATES = {"running": pb.CONTAINER_RUNNING, "stopped": pb.CONTAINER_EXITED}
READINESS = {True: pb.SANDBOX_READY, False: pb.SANDBOX_NOTREADY}
ENDS_SECONDS = 60.0
WORKER = """\
goroutine {number} [chan receive, 3 minutes]:
main.main.func4()
\t/src/cmd/crio/main.go:446 +0x3c
created by github.com/soheilhy/cmux.(*cMux).Serve in goroutine 1
\t/mod/github.com/soheilhy/cmux@v0.1.5/cmux.go:175 +0x1e5

"""
SILENT = """\
goroutine {number} [IO wait, 3 minutes]:
internal/poll.(*pollDesc).waitRead(...)
\t/go/src/internal/poll/fd_poll_runtime.go:89
net.(*conn).Read(0x39cfa591370, {{0x39cf830bb60?, 0x7fd8f717e908?, 0x7fd93f47d108?}})
\t/go/src/net/net.go:196 +0x45
github.com/soheilhy/cmux.hasHTTP2Preface({{0x30abb00, 0x39cf7dbb970}})
\t/mod/github.com/soheilhy/cmux@v0.1.5/matchers.go:195 +0x7a
github.com/soheilhy/cmux.(*cMux).serve(0x39cf558e7d0, {{0x30d7b68, 0x39cfa591370}}, 0x39cf6f3e930, 0x39cf7dbb8f0)
\t/mod/github.com/soheilhy/cmux@v0.1.5/cmux.go:186 +0x162
created by github.com/soheilhy/cmux.(*cMux).Serve in goroutine 1
\t/mod/github.com/soheilhy/cmux@v0.1.5/cmux.go:175 +0x1e5

"""
"""Both as CRI-O 1.34 shows them."""


class CrioServer:
    """One start of a CRI-O.

    Raises:
        OSError: somebody accepts connections at the path of its socket already, which makes a real one end at once.
    """

    def __init__(self, path: Path, storage: Storage, configuration: Callable[[], str]) -> None:
        self._storage, self._configuration = storage, configuration
        self.path = path
        self._remove_unused()
        self.loaded: dict[str, Loaded] = storage.load()
        self._inner = path.with_name(f"{path.name}.inner")
        self._pool = ThreadPoolExecutor(4)
        self._grpc = grpc.server(self._pool)
        self._grpc.add_generic_rpc_handlers((_Handler(self),))
        self._grpc.add_insecure_port(f"unix:{self._inner}")
        self._grpc.start()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._threads: list[threading.Thread] = []
        self._silent: set[int] = set()
        self.shows_goroutines = True
        self._begin(self._accept)

    def stop(self) -> None:
        """End, leaving the socket's name as a process does that is killed.

        Raises:
            RuntimeError: a connection is still served; it would take time from every later test.
        """
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._grpc.stop(None).wait()
        self._pool.shutdown()
        for thread in self._threads:
            thread.join(ENDS_SECONDS)
        if any(thread.is_alive() for thread in self._threads):
            raise RuntimeError("a connection is still served although the server was stopped")

    def _begin(self, target: Callable[..., None], *given: socket.socket) -> None:
        self._threads.append(threading.Thread(target=target, args=given, daemon=True))
        self._threads[-1].start()

    def _remove_unused(self) -> None:
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            probe.connect(str(self.path))
            raise OSError(f"already existing connection on {self.path}")
        self.path.unlink(missing_ok=True)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        """Tell HTTP/1 and HTTP/2 apart by their first bytes."""
        with connection, contextlib.suppress(OSError):
            self._silent.add(number := threading.get_ident())
            first = connection.recv(3, socket.MSG_PEEK | socket.MSG_WAITALL)
            self._silent.discard(number)
            if first != b"PRI":
                self._answer(connection)
                return
            with socket.socket(socket.AF_UNIX) as inner:
                inner.connect(str(self._inner))
                splice(connection, inner)

    def _answer(self, connection: socket.socket) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            if not (more := connection.recv(4096)):
                return  # it only asked whether anybody listens
            request += more
        path = request.split()[1].decode()
        known = {"/config": self._configuration}
        known |= {"/debug/goroutines": self._goroutines} if self.shows_goroutines else {}
        body = known[path]().encode() if path in known else b"404"
        status = "200 OK" if path in known else "404 Not Found"
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)

    def _goroutines(self) -> str:
        return WORKER.format(number=1) + "".join(SILENT.format(number=number) for number in {*self._silent})

    def answer(self, method: str, request: bytes, context: grpc.ServicerContext) -> Message:
        """Answer one method of the CRI."""
        match method:
            case "Version":
                return pb.VersionResponse(runtime_name="cri-o", runtime_version=VERSION, runtime_api_version="v1")
            case "RuntimeConfig":
                return pb.RuntimeConfigResponse(linux=pb.LinuxRuntimeConfiguration(cgroup_driver=pb.SYSTEMD))
            case "ListContainers":
                wanted = pb.ListContainersRequest.FromString(request).filter
                items = [self._container(item) for item in self.loaded.values()]
                if wanted.HasField("state"):
                    items = [item for item in items if item.state == wanted.state.state]
                return pb.ListContainersResponse(containers=items)
            case "ListPodSandbox":
                return pb.ListPodSandboxResponse(items=[self._sandbox(i) for i in self._storage.sandboxes])
            case "ContainerStatus":
                return self._status(pb.ContainerStatusRequest.FromString(request), context)
            case "PodSandboxStatus":
                return self._sandbox_status(pb.PodSandboxStatusRequest.FromString(request), context)
            case _:
                return context.abort(grpc.StatusCode.UNIMPLEMENTED, f"unknown method {method}")

    def _container(self, item: Loaded) -> pb.Container:
        return pb.Container(
            id=item.identity, pod_sandbox_id=item.sandbox, metadata=pb.ContainerMetadata(name="main"),
            state=STATES[item.state["status"]], created_at=nanoseconds(item.created), labels=item.labels,
            annotations=item.annotations,
        )  # fmt: skip

    def _status(self, request: pb.ContainerStatusRequest, context: grpc.ServicerContext) -> Message:
        item = self.loaded.get(request.container_id)
        if item is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "could not find container")
        status = pb.ContainerStatus(
            id=item.identity, state=STATES[item.state["status"]], started_at=nanoseconds(item.state["started"]),
            created_at=nanoseconds(item.state["created"]), exit_code=item.state.get("exitCode") or 0,
            annotations=item.annotations,
        )  # fmt: skip
        info = {"sandboxID": item.sandbox, "pid": item.state["pid"], "runtimeSpec": {}, "privileged": False}
        return pb.ContainerStatusResponse(status=status, info={"info": json.dumps(info)} if request.verbose else {})

    def _sandbox(self, identity: str) -> pb.PodSandbox:
        told = self._storage.sandboxes[identity]
        return pb.PodSandbox(
            id=identity, metadata=pb.PodSandboxMetadata(name=told["name"], uid=told["uid"], namespace="contract"),
            state=READINESS[told["ready"]], created_at=nanoseconds(CREATED),
            annotations={"kubernetes.io/config.source": "api"},
        )  # fmt: skip

    def _sandbox_status(self, request: pb.PodSandboxStatusRequest, context: grpc.ServicerContext) -> Message:
        told = self._storage.sandboxes.get(request.pod_sandbox_id)
        if told is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "could not find pod")
        options = pb.NamespaceOption(network=pb.NODE)
        linux = pb.LinuxPodSandboxStatus(namespaces=pb.Namespace(options=options))
        info = {"runtimeSpec": {}} | ({"pid": told["pid"]} if told["pid"] else {})
        return pb.PodSandboxStatusResponse(
            status=pb.PodSandboxStatus(id=request.pod_sandbox_id, state=READINESS[told["ready"]], linux=linux),
            info={"info": json.dumps(info)} if request.verbose else {},
        )


class _Handler(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # not generic when it runs
    def __init__(self, server: CrioServer) -> None:
        self._server = server

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        service, _, method = str(details.method).rpartition("/")
        if f"{service}/" != SERVICE:
            return None

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            return self._server.answer(method, request, context).SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


def splice(one: socket.socket, other: socket.socket) -> None:
    """Copy bytes in both directions until one side ends."""
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)
                if not (data := source.recv(65536)):
                    return
                key.data.sendall(data)
