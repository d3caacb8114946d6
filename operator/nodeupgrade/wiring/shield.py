"""Builds the shield's process."""

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters import callers
from nodeupgrade.adapters.callers import Front
from nodeupgrade.adapters.clock import NodeClock
from nodeupgrade.adapters.cri.guarded import CallGuard, Surroundings, containers_of
from nodeupgrade.adapters.cri.proxy import Proxy, Upstream
from nodeupgrade.adapters.files.host import HostFiles
from nodeupgrade.adapters.journal.runs import RunStore
from nodeupgrade.adapters.logs import log_to_stderr
from nodeupgrade.adapters.proc.processes import ProcessTable, memory_in_use
from nodeupgrade.adapters.proc.sockets import open_listener
from nodeupgrade.adapters.shield.records import ShieldRecords
from nodeupgrade.adapters.shield.socket import STATE, Exchange
from nodeupgrade.adapters.systemd.manager import SystemdManager
from nodeupgrade.adapters.systemd.watchdog import notify_ready
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.shield import Shielded

__all__ = [
    "STATE",
    "CallGuard",
    "Exchange",
    "Front",
    "Proxy",
    "RunStore",
    "front_of",
    "guard_of",
    "log_to_stderr",
    "notify_ready",
    "open_listener",
]

SHUTS_DOWN_SECONDS = 5.0
"""How long systemd may take to say whether the node shuts down."""


def front_of(plan: RunPlan, exchange: Exchange) -> Front:
    """Return the door at which a run's kubelet and others call, beside the runtime's socket."""
    processes = ProcessTable()
    own = os.environ.get("RUNTIME_DIRECTORY") or tempfile.mkdtemp()
    swap = plan.swap
    return Front(
        exchange.shield,
        Path(own) / "calls.sock",
        exchange.upstream,
        lambda pid: callers.described(processes, pid, kubelet=PurePosixPath(swap.path), unit=swap.unit),
    )


def guard_of(
    plan: RunPlan, runs: RunStore, exchange: Exchange, front: Front, *, state: Path, patience: float
) -> CallGuard:
    """Return the judge of the calls of a run's kubelet."""
    processes, files, shielded = ProcessTable(), HostFiles(), Shielded.of(plan)
    records = ShieldRecords(state)
    records.prepare()

    def memory(container: ContainerId) -> int | None:
        found = shielded.containers.get(container)
        return None if found is None or found.process is None else memory_in_use(found.process.pid, container)

    around = Surroundings(
        raised=exchange.intended,
        socket=PurePosixPath(exchange.path),
        lives=processes.lives,
        listed=partial(containers_of, Upstream(exchange.upstream)),
        memory=memory,
        deleted=lambda: runs.ask_for_deleted_pods(plan.run_id),
        digest=lambda path: files.digest(PurePosixPath(path)),
        record=records.refuse,
        record_rule=records.allow_by_rule,
        waiting=records.hold_back,
        clock=NodeClock(processes),
        shuts_down=partial(asyncio.to_thread, SystemdManager(timeout=SHUTS_DOWN_SECONDS).shuts_down),
        caller=lambda peer: callers.UNKNOWN if (known := front.caller(peer)) is None else known,
    )
    return CallGuard(shielded, around, patience=patience)
