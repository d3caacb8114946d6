"""A proxy that makes the API server as far away as it is in some clusters. It is a process of its own.

``python -m e2e.bench_fleet.latency PORT SERVER_PORT MILLISECONDS`` passes bytes on, each after half the round trip.
"""

import asyncio
import contextlib
import sys


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Copy bytes, each chunk a fixed time after its arrival, in order and without holding up the next one."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=1024)

    async def deliver() -> None:
        while True:
            due, chunk = await chunks.get()
            if (left := due - loop.time()) > 0:
                await asyncio.sleep(left)
            if not chunk:
                return
            writer.write(chunk)
            await writer.drain()

    delivering = asyncio.ensure_future(deliver())
    try:
        while chunk := await reader.read(262144):
            await chunks.put((loop.time() + delay, chunk))
        await chunks.put((loop.time() + delay, b""))
        await delivering
    finally:
        delivering.cancel()
        writer.close()


async def serve(port: int, server_port: int, milliseconds: float) -> None:
    """Serve until killed."""
    delay = milliseconds / 2000

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", server_port)
        with contextlib.suppress(OSError):
            await asyncio.gather(_pass_on(reader, back, delay), _pass_on(there, writer, delay), return_exceptions=True)

    async with await asyncio.start_server(connected, "127.0.0.1", port) as server:
        print("ready", flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
