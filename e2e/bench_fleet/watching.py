"""Watches a rollout from outside: when things happen, who writes what, and what the operator's process takes."""

import asyncio
import json
import os
import re
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import UPGRADES
from nodeupgrade.fleet.caches.informer import Informer
from nodeupgrade.fleet.caches.object_cache import Delta
from tests.contract.kube.apiserver import OPERATOR

AUDIT_POLICY = f"""
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- {{level: Metadata, users: ["{OPERATOR}"]}}
- level: None
"""
"""Records every request of the operator, and of nobody else."""

WRITES = frozenset({"create", "update", "patch", "delete"})


@dataclass(slots=True)
class Timeline:
    """When a rollout reached what, in seconds of ``clock``."""

    clock: Callable[[], float]
    used: Callable[[], float]
    first_pass: float | None = None
    planned: float | None = None
    first_in_flight: float | None = None
    over: float | None = None
    phase: str = ""
    done: dict[int, float] = field(default_factory=dict)  # the time at which so many nodes were done, by number
    cpu: dict[int, float] = field(default_factory=dict)  # likewise, what the operator had used until then, in seconds
    largest: int = 0  # size of the largest status, in bytes
    flying: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the first node is in flight."""

    async def follow(self, kube: KubeClient, enough: int) -> None:
        """Follow the NodeUpgrade that there is until it is over, or so many of its nodes are done."""

        def changed(delta: Delta[Json]) -> None:
            if delta.after is not None:
                self._see(delta.after)
                if self.over is not None or len(self.done) >= enough:
                    ended.set()

        ended = asyncio.Event()
        watching = asyncio.ensure_future(Informer(kube, UPGRADES, dict, on_change=changed).run())
        try:
            await asyncio.wait({watching, asyncio.ensure_future(ended.wait())}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()

    def _see(self, body: Json) -> None:
        status, now = body.get("status"), self.clock()
        if not status:
            return
        self.largest = max(self.largest, len(json.dumps(status).encode()))
        self.first_pass = self.first_pass or now
        if status.get("plannedAt"):
            self.planned = self.planned or now
        if status.get("inFlight"):
            self.first_in_flight = self.first_in_flight or now
            self.flying.set()
        self.phase = str(status.get("phase"))
        if status.get("completedAt"):
            self.over = now
        counts = status.get("counts") or {}
        finished = counts.get("total", 0) - counts.get("pending", 0) - counts.get("inProgress", 0)
        for number in range(len(self.done) + 1, finished + 1):
            self.done[number], self.cpu[number] = now, self.used()


@dataclass(frozen=True, slots=True)
class Spent:
    """What a process has used: CPU in seconds, and its largest resident memory in MB."""

    cpu: float
    memory: float


def spent(pid: int) -> Spent:
    """Read what a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return Spent(cpu, int(match.group(1)) / 1024)


def writes(audit_log: Path) -> Counter[str]:
    """Count the operator's requests that change something, by verb and resource; dry runs do not count."""
    counted = Counter[str]()
    with audit_log.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                break
            entry = json.loads(line)
            if entry["verb"] in WRITES and "dryRun=" not in entry["requestURI"]:
                what = entry["objectRef"]
                counted[f"{entry['verb']} {what['resource']}{'/status' if what.get('subresource') else ''}"] += 1
    return counted


async def slowest_pass(port: int, share: float = 0.99) -> float:
    """Return the bound under which this share of the passes took, in seconds, from the operator's histogram."""
    told = await asyncio.to_thread(_scrape, port)
    buckets = re.findall(r'nodeupgrade_reconcile_duration_seconds_bucket\{le="([^"]+)"\} (\S+)', told)
    bounds = [(float(bound.replace("+Inf", "inf")), float(count)) for bound, count in buckets]
    return next(bound for bound, count in bounds if count >= share * bounds[-1][1])


def _scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())
