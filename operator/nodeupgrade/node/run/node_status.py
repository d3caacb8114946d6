"""Wait until the API server shows the new kubelet: before, it knows no pods, and so could harm none.

See docs/decisions/settle-period.md.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Self, assert_never

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan, ShownKubelet
from nodeupgrade.node.run.kubelet_log import last_errors, read_log
from nodeupgrade.node.run.lease_keeping import keep_lease

FRESH_SECONDS = 15.0
"""Age up to which a report of the agent counts; while the API server is unreachable it makes one every few seconds."""
AGENT_SECONDS = 600.0
"""How long there may be no report. An agent that is lost cannot come back if the new kubelet knows no pods."""
KEEP_LEASE_SECONDS = 5.0


class Obstacle(Enum):
    """Why the new kubelet is not shown."""

    UNREACHABLE = "the API server does not answer the agent"
    NOT_SHOWN = "the API server answers the agent, and still shows another version"
    NO_REPORT = "no agent reports"


@dataclass(slots=True)
class NodeStatusWait:
    """Asks whether the new kubelet is shown, for as long as it may not be."""

    node: Node
    plan: RunPlan
    _since: AwakeTime
    _keep_lease_at: AwakeTime
    _obstacle: Obstacle | None = None

    @classmethod
    def from_now(cls, node: Node, plan: RunPlan) -> Self:
        """Return a wait that begins now."""
        now = node.clock.awake()
        return cls(node, plan, now, now + KEEP_LEASE_SECONDS)

    def is_over(self) -> bool:
        """Report whether the API server shows the new kubelet.

        While the API server is unreachable, the wait goes on: the old kubelet would not reach it either. The agent ends
        it at the deadline of the run.

        Raises:
            StepFailed: the API server has answered the agent for too long without showing the new kubelet, or there is
                no agent.
        """
        now, shown = self.node.clock.awake(), self.node.shown_kubelet()
        if shown is not None and shown.version == self.plan.to_version:
            return True
        obstacle = _obstacle(shown, now)
        if obstacle is not self._obstacle:
            self._obstacle, self._since = obstacle, now
        if now >= self._keep_lease_at:
            keep_lease(self.node, self.plan)
            self._keep_lease_at = now + KEEP_LEASE_SECONDS
        seconds = now - self._since
        match obstacle:
            case Obstacle.UNREACHABLE:
                return False
            case Obstacle.NOT_SHOWN:
                limit, what = self.plan.limits.node_status, f"shows {(shown and shown.version) or 'no Node'}"
            case Obstacle.NO_REPORT:
                limit, what = AGENT_SECONDS, "is not known to show it, since no agent runs"
            case never:
                assert_never(never)
        if seconds >= limit:
            log = last_errors(read_log(self.node, self.plan.swap.unit))
            why = f"kubelet {self.plan.to_version} has run for {seconds:.0f} s, and the API server {what}{log}"
            raise StepFailed(why, reason=Reason.KUBELET_NOT_SHOWN)
        return False


def _obstacle(shown: ShownKubelet | None, now: AwakeTime) -> Obstacle:
    if shown is None or now - AwakeTime(shown.at) > FRESH_SECONDS:
        return Obstacle.NO_REPORT
    return Obstacle.NOT_SHOWN if shown.answered else Obstacle.UNREACHABLE
