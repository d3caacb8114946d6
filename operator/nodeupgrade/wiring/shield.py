"""Builds the shield's process."""

from functools import partial
from pathlib import Path, PurePosixPath

from nodeupgrade.adapters.clock import NodeClock
from nodeupgrade.adapters.cri.guarded import CallGuard, Surroundings, containers_of
from nodeupgrade.adapters.cri.proxy import Proxy
from nodeupgrade.adapters.cri.upstream import Upstream
from nodeupgrade.adapters.files import HostFiles
from nodeupgrade.adapters.journal import RunStore
from nodeupgrade.adapters.observability import log_to_stderr
from nodeupgrade.adapters.proc import ProcessTable
from nodeupgrade.adapters.proc.memory import memory_in_use
from nodeupgrade.adapters.shield import Exchange, Refusals, WaitingCalls
from nodeupgrade.adapters.shield.host import STATE
from nodeupgrade.adapters.systemd.notify import notify_ready
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.shield import Shielded

__all__ = [
    "STATE",
    "CallGuard",
    "Exchange",
    "Proxy",
    "exchange_at",
    "guard_of",
    "log_to_stderr",
    "notify_ready",
    "proxy_at",
    "runs_in",
]


def runs_in(directory: Path) -> RunStore:
    """Return the node's runs."""
    return RunStore(directory)


def exchange_at(socket: Path, state: Path = STATE) -> Exchange:
    """Return the exchange of a runtime's socket."""
    return Exchange(socket, state)


def guard_of(plan: RunPlan, runs: RunStore, exchange: Exchange, *, state: Path, patience: float) -> CallGuard:
    """Return the judge of the calls of a run's kubelet."""
    processes, files, shielded = ProcessTable(), HostFiles(), Shielded.of(plan)
    waiting = WaitingCalls(state)
    waiting.set(0)  # an earlier process may have been killed
    refusals = Refusals(state)
    refusals.prepare()

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
        record=refusals.add,
        waiting=waiting.set,
        clock=NodeClock(processes),
    )
    return CallGuard(shielded, around, patience=patience)


def proxy_at(exchange: Exchange, guard: CallGuard) -> Proxy:
    """Return the proxy, which listens beside the runtime's socket."""
    return Proxy(exchange.shield, exchange.upstream, guard)
