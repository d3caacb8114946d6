"""Plans what comes to the node until its kubelet is stopped, when the executor asks."""

import asyncio
from dataclasses import dataclass, replace

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
from nodeupgrade.node.facts.gather import since_examined
from nodeupgrade.node.facts.static_pod_manifests import read_manifests
from nodeupgrade.node.journal.run_store import AgentRuns
from nodeupgrade.node.node import HostView
from nodeupgrade.node.plan.amendment import Arrivals

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

    @property
    def can_answer(self) -> bool:
        """Whether this agent has examined the node."""
        return self.prepared.examination is not None

    async def answer(self) -> None:
        """Answer what is asked, if anything is and it was not answered yet; a failure is only logged."""
        examination = self.prepared.examination
        asked = None if examination is None else self.runs.arrivals(self.prepared.plan.run_id)
        if examination is None or asked is None or asked == self._answered:
            return
        try:
            await self._plan(examination, asked)
        except (NodeUpgradeError, TimeoutError, OSError, HashError) as error:
            log.info("arrivals_not_planned", error=str(error))
        else:
            self._answered = asked

    async def _plan(self, examination: Examination, asked: Arrivals) -> None:
        listed = await asyncio.wait_for(self.kube.list_pods_on_node(self.node), REQUEST_SECONDS)
        pods = tuple(map(parse_pod, listed))
        manifests = await asyncio.to_thread(read_manifests, self.host.files, examination.layout)
        plan = self.prepared.plan
        node = self.host.node(plan.runtime_endpoint, plan.runtime_name)
        facts = await asyncio.to_thread(since_examined, node, examination.facts, asked.inventory, pods)
        planned = plan_arrivals(replace(examination, facts=facts), pods, manifests, asked)
        await asyncio.to_thread(self.runs.report_planned, plan.run_id, planned)
        log.info("arrivals_planned", containers=len(planned.asked), obstacle=planned.obstacle)
