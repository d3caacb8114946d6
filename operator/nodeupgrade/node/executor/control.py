"""The agent's control of the executor: try out, start, restart, withdraw, clean up.

The agent reaches the executor only through systemd and the run's directory. Once a run has its first record, only the
executor itself can roll it back.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath

import structlog

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import RunId
from nodeupgrade.errors import Inconsistent, NodeUpgradeError, Refused, StepFailed
from nodeupgrade.kubelet.kubeconfig import parse
from nodeupgrade.node.bundle.bundles import Bundles
from nodeupgrade.node.executor import units
from nodeupgrade.node.facts.device_access import Harmless, Unavoidable
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.node import SPARE_EXECUTOR, Host
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.report import report_of

log = structlog.get_logger()

CLEAN_UP_TRIES = 5
CLEAN_UP_PAUSE = 2.0
"""Seconds between two tries."""
WAITS = "; nothing has to be done: it ends by itself, and the node is examined again automatically"
RECORDS_TRIES = 15
"""How often to look whether a journal tells what a running executor does."""


@dataclass(frozen=True, slots=True)
class ExecutorService:
    """Controls the executor of one node."""

    host: Host
    run_store: AgentRuns
    bundles: Bundles
    spares: Bundles  # a second copy, elsewhere on the node

    def try_out(self) -> None:
        """Stage the bundle and check that systemd can run the executor's program, without starting a run.

        Raises:
            Refused: systemd cannot run it, or would take a device from a container.
            StepFailed: the bundle cannot be staged, or systemd does not answer.
        """
        root, _ = self._stage()
        try:
            self._try_out(root)
        except Refused:
            if not self.is_needed():
                self.bundles.remove()
                self.spares.remove()
            raise

    def _try_out(self, root: PurePosixPath) -> None:
        with _refusing():
            problem = units.try_out(self.host.files, self.host.services, root)
        if problem:
            raise Refused(
                Reason.EXECUTOR_UNAVAILABLE,
                f"systemd cannot run the executor from {root}: {problem}; ensure that programs may be executed there "
                f"(mount option noexec, SELinux, AppArmor, fapolicyd)",
            )

    def stage_bundle(self) -> None:
        """Stage both copies of the bundle, which may take a while; start nothing. Raises as Bundles.stage()."""
        self._stage()

    def _stage(self) -> tuple[PurePosixPath, PurePosixPath]:
        with ThreadPoolExecutor(1) as beside:  # most of the time is the disk's
            spare = beside.submit(self.spares.stage)
            return self.bundles.stage(), spare.result()

    def hand_over(self, plan: RunPlan) -> None:
        """Stage the bundle on the node and start the executor. Idempotent.

        Once an executor has begun, its kubelet may be down, which does not wait for a device. Only if systemd has lost
        the executor's unit does it then read its files at the expense of one.

        Raises:
            Refused: systemd would take a device from a container while it reads the units.
            StepFailed: the executor could not be started, or it is unknown whether it was.
        """
        roots, kubelets = self._stage(), self._kubelets_environment(plan)
        files, services = self.host.files, self.host.services
        if not self.run_store.read_journal(plan.run_id).records:
            with _refusing():
                units.install(
                    files, services, roots, plan, look=Harmless.by_now(files, services), kubelet_environment=kubelets
                )
            return
        look = Unavoidable(Harmless(files, services))
        look()
        if look.lost is not None and services.status(units.EXECUTOR).load_state == "loaded":
            services.start(units.EXECUTOR, wait=False)
            return
        units.install(files, services, roots, plan, look=look, kubelet_environment=kubelets)
        if look.lost is not None:
            log.warning("device_lost", why=look.lost)

    def _kubelets_environment(self, plan: RunPlan) -> Mapping[str, str] | None:
        """Return the environment of the running kubelet if a program prints its credentials."""
        if plan.kubeconfig is None:
            return None
        path = PurePosixPath(plan.kubeconfig)
        try:
            if parse(self.host.files.read(path) or b"", path.parent).program is None:
                return None
            return self.host.kubelet.environment(self.host.services.status(plan.swap.unit).main_pid)
        except (ValueError, NodeUpgradeError) as error:  # an earlier handover may have stored it; no run depends on it
            log.info("kubelet_environment_unknown", error=str(error))
            return None

    async def ensure_running(self, plan: RunPlan) -> None:
        """Start the executor unless it runs; a failure is only logged."""
        if await asyncio.to_thread(self.runs):
            return
        log.info("executor_starting")
        try:
            await asyncio.to_thread(self.hand_over, plan)
        except NodeUpgradeError as error:
            log.warning("executor_start_failed", error=str(error))

    async def await_records(self) -> None:
        """Give a running executor of which no journal tells half a minute: it has just begun, or is about to end.

        Or somebody has removed what it has written, which it makes again.
        """
        for _ in range(RECORDS_TRIES):
            if await asyncio.to_thread(self.is_needed) or not await asyncio.to_thread(self.runs):
                return
            log.info("executor_records_awaited")
            await asyncio.sleep(CLEAN_UP_PAUSE)

    def handed_over(self, plan: RunPlan) -> bool:
        """Report whether an earlier agent has handed the plan over, so that an executor may begin at any moment.

        One that was lost before it started the executor, such as while systemd read the units, has not: its examination
        may be from long ago.

        Raises:
            NodeUpgradeError: systemd does not answer.
        """
        begun = self.run_store.handing_over(plan.run_id)
        return begun and not self.host.services.status(units.EXECUTOR).down

    def runs(self) -> bool:
        """Report whether an executor runs; true if systemd does not answer, false while it waits for a restart."""
        try:
            found = [self.host.services.status(unit) for unit in (units.EXECUTOR, SPARE_EXECUTOR)]
            up = {"active", "activating", "reloading"}
            return any(status.active_state in up and status.sub_state != "auto-restart" for status in found)
        except NodeUpgradeError as error:
            log.info("executor_status_failed", error=str(error))
            return True

    def state(self) -> str:
        """Return the state of the executor's unit, in systemd's terms."""
        try:
            return units.state(self.host.services, units.EXECUTOR)
        except NodeUpgradeError as error:
            return str(error)

    async def withdraw(self, plan: RunPlan) -> bool:
        """Withdraw a plan that may have been handed over; if an executor has begun it, make sure that it can finish.

        Returns:
            Whether the plan was withdrawn.

        Raises:
            StepFailed: an executor may still be running.
        """
        if await asyncio.to_thread(self._withdraw, plan.run_id, plan.swap.unit):
            if not self.is_needed(plan.run_id):
                for path in plan.temporary(keeping_old=False):
                    await asyncio.to_thread(self.host.files.remove, PurePosixPath(path))
            return True
        await self.ensure_running(plan)
        return False

    async def forget(self, run: RunId, kubelet_unit: str) -> None:
        """Make sure that no executor ever begins an earlier plan for this node, which is outdated.

        Raises:
            StepFailed: an executor may still be running.
        """
        if await asyncio.to_thread(self._withdraw, run, kubelet_unit):
            log.info("unstarted_plan_removed", run=run)
        else:
            await self.ensure_running(self.run_store.require_plan(run))

    def _withdraw(self, run: RunId, kubelet_unit: str) -> bool:
        if self.run_store.read_journal(run).records:
            return False
        if not self.is_needed(run):
            self._remove_unbegun(kubelet_unit)
        try:
            self.run_store.discard(run)
        except Inconsistent as error:
            log.info("run_withdrawal_too_late", why=str(error))
            return False
        return True

    def _remove_unbegun(self, kubelet_unit: str) -> None:
        """Remove what was installed for a plan, if anything was; what cannot be unloaded now is stopped, and stays."""
        try:
            if units.remain(self.host.files, self.host.services, kubelet_unit, self.host.runtimes):
                units.remove(self.host.files, self.host.services, kubelet_unit, self.host.runtimes)
        except StepFailed as error:
            if error.reason is not Reason.DEVICES_WOULD_BE_LOST:
                raise
            log.warning("units_left_behind", error=str(error))
        else:
            self.spares.remove()

    async def clean_up(self, plan: RunPlan) -> None:
        """Remove what only the run needed; journal, plan, backup and the newest bundle stay.

        The executor does the same at its end, unless it is killed before, or stopped here. A failure is retried, since
        a timer may start a unit while it is being stopped; the next run removes what then remains.
        """
        for left in reversed(range(CLEAN_UP_TRIES)):
            try:
                await asyncio.to_thread(self._clean_up, plan)
            except NodeUpgradeError as error:
                log.warning("cleanup_incomplete", error=str(error), tries_left=left)
            else:
                return
            if left:
                await asyncio.sleep(CLEAN_UP_PAUSE)

    def _clean_up(self, plan: RunPlan) -> None:
        if self.is_needed(plan.run_id):
            return
        units.remove(self.host.files, self.host.services, plan.swap.unit, self.host.runtimes)
        journal = self.run_store.read_journal(plan.run_id)
        ended = report_of(journal)
        keeping_old = ended is None or ended.outcome is Outcome.DEGRADED
        carried_out = plan_in_effect(plan, journal)
        for path in carried_out.temporary(keeping_old=keeping_old):
            self.host.files.remove(PurePosixPath(path))
        for path in carried_out.files():
            with suppress(StepFailed):
                self.host.files.tidy(PurePosixPath(path))
        self.bundles.retire()
        self.spares.remove()

    def finish_earlier_cleanup(self, kubelet_unit: str) -> None:
        """Make sure that no executor is still cleaning up after an earlier attempt, and finish its cleanup.

        It would remove what is staged next, and what it has left would look like a foreign change.

        Raises:
            Refused: another run is under way, or a reload would take a device from a container.
            StepFailed: the executor may still be running.
        """
        try:
            begun = self.run_store.begun()
        except Inconsistent as error:
            raise earlier_run_refusal(error) from error
        if begun is not None:
            raise Refused(Reason.EXECUTOR_AT_WORK, f"run {begun} has begun on this node meanwhile{WAITS}")
        if self.runs():
            if (ended := self._ended_by_executor()) is not None:
                raise Refused(
                    Reason.EXECUTOR_AT_WORK,
                    f"earlier run {ended} on this node is over, and its executor still cleans up{WAITS}",
                )
            if self.runs():  # it may have ended while it was looked at
                raise earlier_run_refusal("an executor runs, and no journal tells what it has begun")
        if units.remain(self.host.files, self.host.services, kubelet_unit, self.host.runtimes):
            with _refusing():
                units.remove(self.host.files, self.host.services, kubelet_unit, self.host.runtimes)

    def _ended_by_executor(self) -> RunId | None:
        """Return the last run, if it was ended by the executor that runs now: by one that was started before its end.

        ``None`` if that is unknown: the records of what the executor does may have been removed.
        """
        clock, last = self.host.clock, next(reversed(self.run_store.begun_runs()), None)
        finished = None if last is None else self.run_store.read_journal(last).finished
        if finished is None or finished.boot != clock.boot():
            return None
        statuses = (self.host.services.status(unit) for unit in (units.EXECUTOR, SPARE_EXECUTOR))
        started = [status.started for status in statuses if not status.down]
        over_for = clock.monotonic() - finished.monotonic
        ran = (each is not None and clock.awake().seconds - each.seconds >= over_for for each in started)
        return last if started and all(ran) else None

    def is_needed(self, besides: RunId | None = None) -> bool:
        """Report whether a run, besides this one, needs units and staged programs; true if that is unknown."""
        try:
            return self.run_store.begun() not in {None, besides}
        except Inconsistent as error:
            log.warning("cleanup_skipped", error=str(error))
            return True


@contextmanager
def _refusing() -> Iterator[None]:
    """Refuse the node where systemd cannot read its files without taking a device from a container."""
    try:
        yield
    except StepFailed as error:
        if error.reason is Reason.DEVICES_WOULD_BE_LOST:
            raise Refused(error.reason, str(error)) from error
        raise


def earlier_run_refusal(why: Inconsistent | str) -> Refused:
    """Return the refusal for an earlier run on the node that is not over."""
    return Refused(
        Reason.ROLLBACK_FAILED,
        f"an earlier run on this node is not over: {why}; put the node in order by hand, "
        f"then remove the run's directory below {RUNS}",
    )
