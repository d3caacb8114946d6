"""The executor as the agent deals with it: tried out, started, looked after, taken back, cleared away.

The agent reaches it through systemd and the run's directory only; from its first record on, nothing takes a run back
but the executor itself.
"""

import asyncio
from pathlib import PurePosixPath

import structlog

from nodeupgrade.agent.host import units
from nodeupgrade.agent.settings import RUNS
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import RunId
from nodeupgrade.domain.errors import Inconsistent, NodeUpgradeError, Refused
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.node import Host
from nodeupgrade.ports.bundles import Bundles
from nodeupgrade.ports.runs import AgentRuns

log = structlog.get_logger()


class ExecutorService:
    """Deals with the executor of one node."""

    def __init__(self, host: Host, runs: AgentRuns, bundles: Bundles) -> None:
        self._runs = runs
        self._bundles = bundles
        self._host = host

    async def try_out(self) -> None:
        """Let systemd start what the executor runs from, as it will start the executor, only to see that it can.

        Raises:
            Refused: it cannot.
            StepFailed: the bundle cannot be brought onto the node, or systemd does not answer.
        """
        await asyncio.to_thread(self._try_out)

    def _try_out(self) -> None:
        root = self._bundles.stage()
        if problem := units.try_out(self._host.files, self._host.services, root):
            if self.unneeded():
                self._bundles.remove()
            raise Refused(
                Reason.EXECUTOR_UNAVAILABLE,
                f"systemd cannot run the executor from {root}: {problem}; see that programs may be executed there "
                f"(mount option noexec, SELinux, AppArmor, fapolicyd)",
            )

    async def bring_bundle(self) -> None:
        """Bring what the executor runs from onto the node, which may take a while; nothing there is started.

        Raises:
            StepFailed: it cannot be brought.
        """
        await asyncio.to_thread(self._bundles.stage)

    async def hand_over(self, plan: RunPlan) -> None:
        """Bring the bundle onto the node and start the executor. Repeating it is harmless.

        Raises:
            StepFailed: it cannot be started, or only perhaps.
        """
        await asyncio.to_thread(self._hand_over, plan)

    def _hand_over(self, plan: RunPlan) -> None:
        units.install(self._host.files, self._host.services, self._bundles.stage(), plan)

    async def bring_back(self, plan: RunPlan) -> None:
        """Start the executor unless it is there."""
        if await asyncio.to_thread(self.runs):
            return
        log.info("starting the executor")
        try:
            await self.hand_over(plan)
        except NodeUpgradeError as error:
            log.warning("cannot start the executor; trying again", error=str(error))

    def handed_over(self, plan: RunPlan) -> bool:
        """Whether an agent before this one has handed the plan over, so that an executor may begin any moment.

        Raises:
            NodeUpgradeError: systemd does not answer.
        """
        about_to = self._runs.handing_over(plan.run_id)
        return about_to and self._host.services.status(units.EXECUTOR).load_state != "not-found"

    def runs(self) -> bool:
        """Whether the executor is there, as far as systemd answers; one that only keeps dying is not."""
        try:
            status = self._host.services.status(units.EXECUTOR)
            return status.active_state in {"active", "activating", "reloading"} and status.sub_state != "auto-restart"
        except NodeUpgradeError as error:
            log.info("cannot look for the executor", error=str(error))
            return True

    def state(self) -> str:
        """How the executor's unit is, in systemd's words."""
        try:
            return units.state(self._host.services, units.EXECUTOR)
        except NodeUpgradeError as error:
            return str(error)

    async def withdraw(self, plan: RunPlan) -> bool:
        """Take a plan back that was perhaps handed over; if an executor has begun, it has to come to an end.

        Returns:
            Whether it could be taken back.

        Raises:
            StepFailed: an executor may still be there.
        """
        if await asyncio.to_thread(self._withdraw, plan.run_id, plan.swap.unit):
            if not self._others_need(plan.run_id):
                await asyncio.to_thread(self._host.files.remove, PurePosixPath(plan.swap.staged))
            return True
        await self.bring_back(plan)
        return False

    async def forget(self, run: RunId, kubelet_unit: str) -> None:
        """See to it that no executor ever takes up an earlier plan of this node, which is out of date.

        Raises:
            StepFailed: an executor may still be there.
        """
        if await asyncio.to_thread(self._withdraw, run, kubelet_unit):
            log.info("forgot a plan that nobody began", run=run)
        else:
            await self.bring_back(self._runs.require_plan(run))

    def _withdraw(self, run: RunId, kubelet_unit: str) -> bool:
        if self._runs.read_journal(run).records:
            return False
        if not self._others_need(run):
            units.remove(self._host.files, self._host.services, kubelet_unit, self._host.runtimes)
        try:
            self._runs.discard(run)
        except Inconsistent as error:
            log.info("too late to take the run back", why=str(error))
            return False
        return True

    async def clean_up(self, plan: RunPlan) -> None:
        """Take away what only the run needed; journal, plan, backup and the newest bundle stay.

        The executor does the same at its end, unless it was killed there or is stopped here before it is through.
        """
        try:
            await asyncio.to_thread(self._clean_up, plan)
        except NodeUpgradeError as error:
            log.warning("something of the run remains on the node", error=str(error))

    def _clean_up(self, plan: RunPlan) -> None:
        if self._others_need(plan.run_id):
            return
        units.remove(self._host.files, self._host.services, plan.swap.unit, self._host.runtimes)
        self._host.files.remove(PurePosixPath(plan.swap.staged))
        self._bundles.retire()

    def rest(self, kubelet_unit: str) -> None:
        """See to it that no executor which is through with an earlier attempt is still tidying up.

        It would take away what is staged next.

        Raises:
            Refused: another run is under way.
            StepFailed: the executor may still be there.
        """
        if not self.unneeded():
            raise not_over("another executor has begun just now, or a journal cannot be read")
        if units.remain(self._host.files):
            units.remove(self._host.files, self._host.services, kubelet_unit, self._host.runtimes)

    def unneeded(self) -> bool:
        """Whether no run on the node needs what is staged."""
        return not self._others_need(None)

    def _others_need(self, run: RunId | None) -> bool:
        """Whether another run is under way, as far as journals can be read, and so needs units and staged program."""
        try:
            return self._runs.begun() not in {None, run}
        except Inconsistent as error:
            log.warning("what is on the node stays there, since a journal cannot be read", error=str(error))
            return True


def not_over(why: Inconsistent | str) -> Refused:
    """An earlier run of the node stands in the way of anything else."""
    return Refused(
        Reason.ROLLBACK_FAILED,
        f"an earlier run on this node is not over: {why}; put the node in order by hand, "
        f"then remove the run's directory below {RUNS}",
    )
