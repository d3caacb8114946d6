"""Watch EndpointSlices, Pods and Nodes and request a page from every endpoint; runs inside the lab's network.

Prints a line once it has seen everything that exists, and its report when it is terminated.
"""

import argparse
import asyncio
import base64
import json
import os
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import yaml

from e2e.lab.process import PATIENCE
from e2e.lab.workloads.traffic import Tally, render

Object: TypeAlias = dict[str, Any]
Seen = Callable[[str, Object], None]

REQUEST_SECONDS = 5.0 * PATIENCE
LISTS = {
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "endpoints": "/apis/discovery.k8s.io/v1/endpointslices",
}


class Eyes:
    """Translates watch events into presence and absence."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.addresses: set[str] = set()
        self._slices: dict[str, dict[str, bool]] = {}

    def node(self, kind: str, body: Object) -> None:
        """Record a Node."""
        del kind
        self.tally.nodes.note(body["metadata"]["name"], _is_ready(body), time.monotonic())

    def pod(self, kind: str, body: Object) -> None:
        """Record a Pod; one that is deleted or has ended is not missed."""
        name = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        over = body.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        if kind == "DELETED" or over or "deletionTimestamp" in body["metadata"]:
            self.tally.pods.forget(name, time.monotonic())
        else:
            self.tally.pods.note(name, _is_ready(body), time.monotonic())

    def slice(self, kind: str, body: Object) -> None:
        """Record an EndpointSlice; an address that left it is lost like one that is not ready."""
        now, name = time.monotonic(), body["metadata"]["name"]
        listed = {} if kind == "DELETED" else _endpoints(body)
        for label in self._slices.get(name, {}).keys() - listed.keys():
            self.tally.endpoints.note(label, False, now)
        for label, ready in listed.items():
            self.tally.endpoints.note(label, ready, now)
        self._slices[name] = listed
        self.addresses = {label.rpartition(" ")[2] for known in self._slices.values() for label in known}


def _endpoints(body: Object) -> dict[str, bool]:
    """Pod and address → ready, for the endpoints that are pods."""
    return {
        f"{endpoint['targetRef']['name']} {address}": bool(endpoint.get("conditions", {}).get("ready"))
        for endpoint in body.get("endpoints") or ()
        if endpoint.get("targetRef", {}).get("kind") == "Pod"
        for address in endpoint["addresses"]
    }


def _is_ready(body: Object) -> bool:
    conditions = body.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def follow(session: aiohttp.ClientSession, path: str, seen: Seen, listed: asyncio.Event) -> None:
    """List and watch for ever; what is missed while the API server is away is in the next list."""
    while True:
        try:
            async with session.get(path) as answer:
                answer.raise_for_status()
                found = await answer.json()
            for item in found["items"]:
                seen("ADDED", item)
            listed.set()
            query = {"watch": "true", "resourceVersion": found["metadata"]["resourceVersion"]}
            async with session.get(path, params=query) as stream:
                stream.raise_for_status()
                async for line in stream.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    seen(event["type"], event["object"])
        except (aiohttp.ClientError, OSError, TimeoutError):
            await asyncio.sleep(0.2)


async def ask(session: aiohttp.ClientSession, address: str, port: int, tally: Tally) -> None:
    """Request a page from one pod."""
    began = time.monotonic()
    try:
        async with session.get(
            f"http://{address}:{port}/", timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        ) as got:
            await got.read()
            ok = got.status == 200
    except (aiohttp.ClientError, OSError, TimeoutError):
        ok = False
    tally.answered(time.monotonic() - began, ok)


async def ask_all(eyes: Eyes, port: int, rate: float) -> None:
    """Request from every endpoint, so many times a second, each time on a new connection as a new client would."""
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        while True:
            for address in sorted(eyes.addresses):
                group.create_task(ask(session, address, port, eyes.tally))
            await asyncio.sleep(1 / rate)


async def watch(port: int, rate: float) -> Tally:
    """Watch until terminated."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):  # a terminal interrupts us together with whoever started us
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    eyes = Eyes(Tally(began=time.monotonic()))
    server, context = _api_server()
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    connector = aiohttp.TCPConnector(ssl=context)
    limit = 2**26  # a list of many pods is one long line to the watch's reader
    async with aiohttp.ClientSession(server, connector=connector, timeout=timeout, read_bufsize=limit) as session:
        seers: dict[str, Seen] = {"nodes": eyes.node, "pods": eyes.pod, "endpoints": eyes.slice}
        listed = {kind: asyncio.Event() for kind in seers}
        jobs = [asyncio.create_task(follow(session, LISTS[kind], seers[kind], listed[kind])) for kind in seers]
        for event in listed.values():
            await event.wait()
        jobs.append(asyncio.create_task(ask_all(eyes, port, rate)))
        sys.stdout.write("watching\n")
        sys.stdout.flush()
        stop = asyncio.create_task(ended.wait())
        await asyncio.wait([stop, *jobs], return_when=asyncio.FIRST_COMPLETED)
        broken = [job for job in jobs if job.done()]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        for job in broken:
            job.result()
    return eyes.tally


def _api_server() -> tuple[str, ssl.SSLContext]:
    config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:  # Python reads a client's key from a file only
        both.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
        both.flush()
        context.load_cert_chain(both.name)
    return cluster["server"], context


def _decoded(text: str) -> str:
    return base64.b64decode(text).decode()


def main() -> None:
    """Parse the command line, watch, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--rate", type=float, default=2.0)
    options = parser.parse_args()
    tally = asyncio.run(watch(options.port, options.rate))
    sys.stdout.write(render(tally.report(time.monotonic())) + "\n")


if __name__ == "__main__":
    main()
