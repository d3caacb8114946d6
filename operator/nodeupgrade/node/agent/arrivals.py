"""Plans what comes to the node until its kubelet is stopped, when the executor asks."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import NodeSideKube
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import NodeUpgradeError, Refused
from nodeupgrade.findings.finding import PASSING
from nodeupgrade.kubelethash import HashError
from nodeupgrade.node.agent.preparation import Prepared
from nodeupgrade.node.agent.task_reporter import REQUEST_SECONDS
from nodeupgrade.node.examination.arrivals import plan_arrivals
from nodeupgrade.node.examination.planning import Examination
from nodeupgrade.node.facts.gather import since_examined
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.facts.volume_claims import claims_that_came
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.node import HostView
from nodeupgrade.node.plan.amendment import AMENDMENT_SCHEMA, Arrivals, PlannedArrivals

PATIENCE_SECONDS = 1.0
"""How long to try again what may pass by itself. The executor waits three times as long, without a kubelet."""
CLAIMS_SECONDS = 0.5
"""How long to read the claims of what came, which no run depends on."""

log = structlog.get_logger()


@dataclass(eq=False, slots=True)
class ArrivalPlanner:
    """Answers the executor of one attempt. Only the agent that examined the node can: it has the facts."""

    runs: AgentRuns
    kube: NodeSideKube
    node: NodeName
    host: HostView
    prepared: Prepared
    _answered: Arrivals | None = None
    _trying: tuple[Arrivals, float] | None = None  # the latest question, and since when it is being answered

    @property
    def can_answer(self) -> bool:
        """Whether this agent has examined the node."""
        return self.prepared.examination is not None

    async def answer(self) -> None:
        """Answer what is asked, if anything is and it was not answered yet: how to take it in, or why nobody can tell.

        What the agent does not find out is an obstacle as well, since the executor would wait for an answer in vain.
        """
        examination = self.prepared.examination
        asked = None if examination is None else self.runs.arrivals(self.prepared.plan.run_id)
        if examination is None or asked is None or asked == self._answered:
            return
        if self._trying is None or self._trying[0] != asked:
            self._trying = asked, self.host.clock.monotonic()
        try:
            planned = await self._plan(examination, asked)
        except (NodeUpgradeError, TimeoutError, OSError, HashError) as error:
            log.info("arrivals_not_planned", error=str(error))
            if _may_pass(error) and self.host.clock.monotonic() - self._trying[1] < PATIENCE_SECONDS:
                return
            ids = tuple(c.id for c in asked.inventory.containers)
            why = str(error) or "the API server does not answer in time"
            planned = PlannedArrivals(schema=AMENDMENT_SCHEMA, run_id=asked.run_id, asked=ids, obstacle=why)
        try:
            await asyncio.to_thread(self.runs.report_planned, self.prepared.plan.run_id, planned)
        except (NodeUpgradeError, OSError) as error:
            log.info("arrivals_answer_delivery_failed", error=str(error))
            return
        log.info("arrivals_planned", containers=len(planned.asked), obstacle=planned.obstacle)
        self._answered = asked

    async def _plan(self, examination: Examination, asked: Arrivals) -> PlannedArrivals:
        listed = await asyncio.wait_for(self.kube.list_pods_on_node(self.node), REQUEST_SECONDS)
        pods = tuple(map(parse_pod, listed))
        manifests = await asyncio.to_thread(read_manifests, self.host.files, examination.layout)
        plan = self.prepared.plan
        node = self.host.node(plan.runtime_endpoint, plan.runtime_name)
        facts = await asyncio.to_thread(since_examined, node, examination.facts, asked.inventory, pods)
        with suppress(TimeoutError, NodeUpgradeError):
            reading = asyncio.to_thread(claims_that_came, self.host, facts, asked.inventory, pods)
            facts = await asyncio.wait_for(reading, CLAIMS_SECONDS)
        return plan_arrivals(replace(examination, facts=facts), pods, manifests, asked)


def _may_pass(error: Exception) -> bool:
    is_final = isinstance(error, Refused) and error.finding.reason not in PASSING
    return not (is_final or isinstance(error, HashError))
