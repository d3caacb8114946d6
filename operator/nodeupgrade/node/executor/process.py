"""The executor's entry point on the host: ``python -m nodeupgrade.node.executor.process``, started by systemd.

It has no API credentials and does not use the network. It follows a plan and writes a journal. If it is killed at any
moment, it continues when it is restarted.
"""

import gc
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path

import structlog

from nodeupgrade.api.values import RunId
from nodeupgrade.errors import Inconsistent
from nodeupgrade.logs import log_to_stderr
from nodeupgrade.node import exit_codes
from nodeupgrade.node.executor import journal_lock, units
from nodeupgrade.node.failpoints.interruption import failpoints
from nodeupgrade.node.host.systemd.watchdog import Watchdog, WatchedClock, notify_ready
from nodeupgrade.node.journal.continued_journal import ContinuedJournal
from nodeupgrade.node.journal.run_directories import RunStore
from nodeupgrade.node.journal.run_store import JOURNAL, BusyError, ExecutorRuns, JournalOnDisk, volatile
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import progress_deadline
from nodeupgrade.node.run.run import NodeRun, fence_after_reboot
from nodeupgrade.node.wiring import node_on_host

log = structlog.get_logger()

EXIT_BUSY = 0
OURS_SECONDS, LOOK_SECONDS, LOOKS = 10.0, 0.5, 6
"""For how long, and how often, to look who has a journal locked, and at how many looks it has to be nobody of ours
until it is taken over: agents have one locked for milliseconds.
"""


def main(arguments: Sequence[str] = ()) -> int:
    """Carry the unfinished run to its end, if there is one; with TRY_OUT, only prove that this program can run."""
    if units.TRY_OUT in arguments:
        return exit_codes.EXIT_ABLE
    runs = RunStore(Path(RUNS))
    try:
        unfinished = runs.unfinished()
    except Inconsistent as error:
        notify_ready()
        log.critical("unfinished_run_read_failed", error=str(error))
        return exit_codes.EXIT_NEEDS_A_HUMAN
    if unfinished is None:
        notify_ready()
        log.info("no_unfinished_run")
        return 0
    try:
        plan = runs.require_plan(unfinished)
        with Watchdog(os.environ) as watchdog:
            watchdog.allow(progress_deadline.longest_silence(plan.limits))
            return _carry_out(runs, unfinished, plan, watchdog)
    except BusyError as error:
        log.info("executor_busy", error=str(error))
        return EXIT_BUSY
    except Inconsistent as error:
        log.critical("run_stopped", run=unfinished, error=str(error))
        runs.report_trouble(unfinished, str(error))
        return exit_codes.EXIT_NEEDS_A_HUMAN
    finally:
        notify_ready()


def _carry_out(runs: ExecutorRuns, run: RunId, plan: RunPlan, watchdog: Watchdog) -> int:
    host = node_on_host(plan)
    node = replace(
        host,
        clock=WatchedClock(host.clock, watchdog),
        abort=lambda: runs.abort_requested(run),
        owner_changes=lambda: runs.ask_for_owner_changes(run),
        newcomers=lambda: runs.ask_for_newcomers(run),
        planned_arrivals=lambda asked: runs.ask_for_plan(run, asked),
        shown_kubelet=lambda: runs.shown_kubelet(run),
        rescue=lambda: runs.rescue(run),
        go_on=lambda: runs.go_on(run),
        end=lambda: runs.end(run),
        failpoint=failpoints(os.environ, watchdog.progress),
    )
    with _opened(runs, run) as store:
        if runs.read_plan(run) is None:
            log.info("run_withdrawn", run=run)
            return 0
        journal = ContinuedJournal(store, node.files, volatile(JOURNAL, run), node.clock.boot())
        if lost := fence_after_reboot(node, plan, journal.load()):
            log.warning("device_lost", why=lost)
        notify_ready()
        log.info("run_started", run=run, node=plan.node, kubelet=f"{plan.from_version} to {plan.to_version}")
        gc.freeze()  # collecting the objects that stay would take 10 ms, perhaps while no kubelet runs

        def heartbeat() -> None:
            store.put_back()
            runs.keep_plan(plan)
            runs.beat(run)

        report = NodeRun(node=node, plan=plan, store=journal, heartbeat=heartbeat, allow=watchdog.allow).carry_out()
    log.info("run_finished", run=run, outcome=report.outcome, reason=report.reason, message=report.message)
    return 0


def _opened(runs: ExecutorRuns, run: RunId) -> AbstractContextManager[JournalOnDisk]:
    """Open the journal, whoever else has locked it: once an executor has died, any pod that may read it can.

    Raises:
        BusyError: a process of ours has it locked, or that is not known.
    """
    try:
        return runs.open_journal(run)
    except BusyError as error:
        busy, others, end = error, 0, time.monotonic() + OURS_SECONDS
    while others < LOOKS and time.monotonic() < end:  # the rescue script looks every few seconds
        time.sleep(LOOK_SECONDS)
        if not journal_lock.may_be_ours():
            with suppress(BusyError):
                return runs.open_journal(run)
            others += 1
    if others < LOOKS:
        raise busy
    return runs.open_journal(run, seize=True)


if __name__ == "__main__":
    log_to_stderr()
    sys.exit(main(sys.argv[1:]))
