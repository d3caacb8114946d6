"""The shield: ``python -m nodeupgrade.node.shield.process``, started by systemd.

Passes on every call to the runtime, except those that would end what ran before the upgrade. The executor raises and
lowers the shield. This process raises it again after a restart of the runtime or of itself, and lowers it when it is
stopped; then it serves the kubelet's calls under way to their end.
"""

import argparse
import asyncio
import gc
import signal
import sys
from pathlib import Path

import structlog

from nodeupgrade.errors import Inconsistent
from nodeupgrade.logs import log_to_stderr
from nodeupgrade.node.exit_codes import EXIT_NEEDS_A_HUMAN
from nodeupgrade.node.host.systemd.watchdog import notify_ready
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import RunPlan, ShieldPlan
from nodeupgrade.node.shield.call_admission import PATIENCE_SECONDS, CriCallJudge
from nodeupgrade.node.shield.connection_relay import ConnectionRelay
from nodeupgrade.node.shield.proxy import Proxy
from nodeupgrade.node.shield.runtime_restarts import lowers, raise_after_restarts, raise_again, step_aside
from nodeupgrade.node.shield.socket_exchange import STATE, Exchange
from nodeupgrade.node.shield.wiring import build_judge, build_relay

GRACE = 5.0
"""Seconds that streams, and calls of clients other than the kubelet, have to end once the shield is lowered."""

log = structlog.get_logger()


def main() -> int:
    """Serve the unfinished run's shield until SIGTERM; without such a run, lower a shield that was left."""
    options = argparse.ArgumentParser(description="Stand between a node's kubelet and its runtime.")
    options.add_argument("--socket", type=Path, required=True, help="the runtime's")
    options.add_argument("--runs", type=Path, default=Path(RUNS), help="directory of the node's runs")
    options.add_argument("--state", type=Path, default=STATE, help="the node's /run")
    options.add_argument("--patience", type=float, default=PATIENCE_SECONDS, help="seconds to wait for an excuse")
    given = options.parse_args()
    exchange = Exchange(given.socket, given.state)
    runs = RunStore(given.runs)
    try:
        run = runs.unfinished()
        plan = None if run is None else runs.require_plan(run)
    except Inconsistent as error:
        log.critical("unfinished_run_read_failed", error=str(error))
        lowers(exchange.clear)
        return EXIT_NEEDS_A_HUMAN
    if plan is None:
        log.info("no_unfinished_run")
        lowered = lowers(exchange.clear)
        notify_ready()
        return 0 if lowered else 1
    relay = build_relay(plan, exchange)
    judge = build_judge(plan, runs, exchange, relay, state=given.state, patience=given.patience)
    return asyncio.run(_serve(plan, exchange, relay, judge))


async def _serve(plan: RunPlan, exchange: Exchange, relay: ConnectionRelay, judge: CriCallJudge) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    proxy = Proxy(relay.server, exchange.upstream, judge)
    await proxy.start()
    await relay.open()
    await raise_again(exchange)
    notify_ready()
    log.info("shield_serving", run=plan.run_id, node=plan.node, socket=str(exchange.path))
    gc.freeze()
    watches = [asyncio.ensure_future(raise_after_restarts(exchange))]
    if plan.shield is not None and plan.shield.steps_aside:
        watches.append(asyncio.ensure_future(step_aside(exchange)))
    await stop.wait()
    judge.switch_off()
    for watch in watches:
        watch.cancel()
    await asyncio.gather(*watches, return_exceptions=True)
    lowered = await asyncio.to_thread(lowers, exchange.lower)
    relay.close()
    serves_on = ShieldPlan(socket="").serves_on if plan.shield is None else plan.shield.serves_on
    # If it is not lowered, systemd must learn at once, and not when the last call ends.
    await proxy.stop(serves_on if lowered else GRACE, GRACE)
    await asyncio.sleep(0)
    relay.close_connections()
    relay.remove_server()
    log.info("shield_ended", run=plan.run_id, lowered=lowered)
    return 0 if lowered else 1


if __name__ == "__main__":
    log_to_stderr()
    sys.exit(main())
