"""Builds the shield's process."""

import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path, PurePosixPath

from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.memory import memory_in_use
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.system_clock import SystemClock
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.shield import caller_names
from nodeupgrade.node.shield.backend import Upstream
from nodeupgrade.node.shield.call_judge import CallGuard, Surroundings, containers_of
from nodeupgrade.node.shield.connections import Front
from nodeupgrade.node.shield.records import ShieldRecords
from nodeupgrade.node.shield.rules import Shielded
from nodeupgrade.node.shield.socket_exchange import Exchange

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
        lambda pid: caller_names.described(processes, pid, kubelet=PurePosixPath(swap.path), unit=swap.unit),
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
        clock=SystemClock(processes),
        shuts_down=partial(asyncio.to_thread, SystemdManager(timeout=SHUTS_DOWN_SECONDS).shuts_down),
        caller=lambda peer: caller_names.UNKNOWN if (known := front.caller(peer)) is None else known,
    )
    return CallGuard(shielded, around, patience=patience)
