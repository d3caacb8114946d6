"""Plans what comes to the node until its kubelet is stopped, when the executor asks.

The kubelet may be down by then, so this waits for nothing else that the agent does.
"""

import asyncio
from dataclasses import dataclass

import structlog

from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import NodeSideKube
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.kubelethash import HashError
from nodeupgrade.node.agent.preparation import Prepared
from nodeupgrade.node.agent.task_reporter import REQUEST_SECONDS
from nodeupgrade.node.examination.arrivals import plan_arrivals
from nodeupgrade.node.examination.planning import Examination
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.plan.amendment import Arrivals

POLL_SECONDS = 0.05

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class Answering:
    """Answers the executor of one attempt. Only the agent that examined the node can: it has the facts."""

    runs: AgentRuns
    kube: NodeSideKube
    node: NodeName
    prepared: Prepared
    _task: asyncio.Task[None] | None = None

    async def answer_while(self, needed: bool) -> None:
        """Answer from now on, or no longer."""
        examination = self.prepared.examination
        if not needed:
            await self.end()
        elif self._task is None and examination is not None:
            self._task = asyncio.create_task(self._answer(examination))

    async def end(self) -> None:
        """Answer no longer."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _answer(self, examination: Examination) -> None:
        answered: Arrivals | None = None
        while True:
            asked = self.runs.arrivals(self.prepared.plan.run_id)
            if asked is not None and asked != answered:
                try:
                    await self._plan(examination, asked)
                    answered = asked
                except (NodeUpgradeError, TimeoutError, OSError, HashError) as error:
                    log.info("arrivals_not_planned", error=str(error))
            await asyncio.sleep(POLL_SECONDS)

    async def _plan(self, examination: Examination, asked: Arrivals) -> None:
        pods = await asyncio.wait_for(self.kube.list_pods_on_node(self.node), REQUEST_SECONDS)
        planned = plan_arrivals(examination, map(parse_pod, pods), asked)
        self.runs.report_planned(self.prepared.plan.run_id, planned)
        log.info("arrivals_planned", containers=len(planned.asked), obstacle=planned.obstacle)
