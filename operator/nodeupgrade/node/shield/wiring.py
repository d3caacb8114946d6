"""Builds the shield's process."""

import asyncio
import os
import tempfile
from functools import cache, partial
from pathlib import Path, PurePosixPath

import structlog

from nodeupgrade.api.values import ContainerId
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.processes.memory import memory_in_use
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.system_clock import SystemClock
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.plan.manifest_uid import digests_of
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.shield.call_admission import CriCallJudge, JudgePorts
from nodeupgrade.node.shield.connection_relay import UNKNOWN_PROCESS, ConnectionRelay, describe_process
from nodeupgrade.node.shield.container_listing import list_containers
from nodeupgrade.node.shield.harmful_calls import Shielded
from nodeupgrade.node.shield.records import ShieldRecords
from nodeupgrade.node.shield.socket_exchange import Exchange
from nodeupgrade.node.shield.upstream import Upstream

log = structlog.get_logger()

SHUTS_DOWN_SECONDS = 5.0
"""How long systemd may take to report whether the node shuts down."""


def build_relay(plan: RunPlan, exchange: Exchange) -> ConnectionRelay:
    """Return the relay to which a run's kubelet and other clients connect, beside the runtime's socket."""
    processes, swap = ProcessTable(), plan.swap
    directory = os.environ.get("RUNTIME_DIRECTORY") or tempfile.mkdtemp()
    return ConnectionRelay(
        exchange.shield,
        Path(directory) / "calls.sock",
        exchange.upstream,
        lambda pid: describe_process(processes, pid, kubelet=PurePosixPath(swap.path), unit=swap.unit),
    )


def build_judge(
    plan: RunPlan, runs: RunStore, exchange: Exchange, relay: ConnectionRelay, *, state: Path, patience: float
) -> CriCallJudge:
    """Return the judge of the calls of a run's kubelet."""
    processes, files = ProcessTable(), HostFiles()
    records = ShieldRecords(state)
    records.prepare()

    @cache
    def amended() -> Shielded:
        journal = runs.read_journal(plan.run_id)
        if not journal.records:
            raise Inconsistent("somebody has removed the journal")
        return Shielded.of(plan_in_effect(plan, journal))

    def protected() -> Shielded:
        try:
            return amended()
        except (Inconsistent, OSError) as error:  # and tried again at the next call
            log.error("plan_amendment_read_failed", error=str(error))  # noqa: TRY400  # the message says it all
            return Shielded.of(plan)

    def memory(container: ContainerId) -> int | None:
        found = protected().containers.get(container)
        return None if found is None or found.process is None else memory_in_use(found.process.pid, container)

    ports = JudgePorts(
        is_raised=exchange.intended,
        socket=PurePosixPath(exchange.path),
        lives=processes.lives,
        list_containers=partial(list_containers, Upstream(exchange.upstream)),
        memory=memory,
        owners=lambda: runs.ask_for_owner_changes(plan.run_id).with_manifests(
            protected().plan.owned, lambda path: digests_of(files.read(PurePosixPath(path)))
        ),
        record_refusal=records.record_refusal,
        record_waiting=records.record_waiting,
        clock=SystemClock(processes),
        shuts_down=partial(asyncio.to_thread, SystemdManager(timeout=SHUTS_DOWN_SECONDS).shuts_down),
        client=lambda peer: UNKNOWN_PROCESS if (known := relay.client(peer)) is None else known,
    )
    return CriCallJudge(protected, ports, patience=patience)
