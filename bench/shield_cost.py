"""What the shield adds to a call of the kubelet, against the same call without it, and its memory.

`make bench` runs it; it fails when the memory is above its target. Latencies are only printed, since machines differ.
"""
# ruff: noqa: INP001 - a script, not part of a package

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc

CALLS = 2_000
MEMORY_MIB = 60
METHOD = "/runtime.v1.RuntimeService/Version"

SERVER = """
import asyncio, sys, grpc
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        async def answer(request, context):
            return request
        return grpc.unary_unary_rpc_method_handler(answer)
async def main():
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    server.add_insecure_port("unix:" + sys.argv[1])
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()
asyncio.run(main())
"""
SHIELD = """
import asyncio, sys
from pathlib import Path
from nodeupgrade.node.shield import process
from nodeupgrade.node.shield.proxy import Proxy
from nodeupgrade.node.shield.call_requests import guarded, is_unary
from nodeupgrade.node.shield.connections import Front
front = Front(Path(sys.argv[1]), Path(sys.argv[1] + ".calls"), lambda: Path(sys.argv[2]), lambda peer: "")
class Judge:
    def unary(self, path):
        return is_unary(path)
    def concerns(self, path):
        return guarded(path) is not None
    async def judge(self, path, request, peer):
        return None
    def awaited(self, peer):
        return front.caller(peer) == ""
async def main():
    proxy = Proxy(front.server, lambda: Path(sys.argv[2]), Judge())
    await proxy.start()
    await front.open()
    print("ready", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


@contextmanager
def running(program: str, *arguments: str) -> Iterator[int]:
    """Run a program until it is ready, and end it with the context; yields its PID."""
    argv = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                sys.exit("error: a server did not start")
            yield process.pid
        finally:
            process.terminate()


def milliseconds(socket: Path) -> list[float]:
    """How long each of many calls takes, one after the other."""
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        call = channel.unary_unary(METHOD, None, None)
        for _ in range(100):
            call(b"warm", timeout=10)
        found = []
        for _ in range(CALLS):
            began = time.perf_counter()
            call(b"x" * 200, timeout=10)
            found.append(1000 * (time.perf_counter() - began))
        return found


def resident_mib(pid: int) -> float:
    """The memory that a process uses now."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def main() -> int:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as directory:
        runtime, shield = Path(directory) / "runtime.sock", Path(directory) / "shield.sock"
        with running(SERVER, str(runtime)), running(SHIELD, str(shield), str(runtime)) as pid:
            bare, through = milliseconds(runtime), milliseconds(shield)
            memory = resident_mib(pid)
    one, other = statistics.median(bare), statistics.median(through)
    print(f"a call of the kubelet: {one:.2f} ms, through the shield {other:.2f} ms: {other - one:.2f} ms more (median)")
    print(f"memory of the shield: {memory:.0f} MiB, at most {MEMORY_MIB}")
    return 0 if memory <= MEMORY_MIB else 1


if __name__ == "__main__":
    sys.exit(main())
