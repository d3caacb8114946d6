"""The API server as one node's kubelet and agent reach it, and the version that it shows for the node."""

from dataclasses import dataclass, field

from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.plan.plan import ShownKubelet
from tests.doubles.node.timeline import Timeline


@dataclass(slots=True)
class SimulatedApiServer:
    """Answers the kubelets that can reach it, and the agent."""

    timeline: Timeline
    shows: str | None = None  # status.nodeInfo.kubeletVersion
    answers: bool = True
    agent: bool = True  # whether an agent looks at the Node for the executor
    cut_off: set[str] = field(default_factory=set)  # versions of kubelets that cannot reach it

    def reached_by(self, kubelet: KubeletVersion) -> bool:
        """Whether a kubelet of this version gets an answer."""
        return self.answers and str(kubelet) not in self.cut_off

    def shown(self) -> ShownKubelet | None:
        """The agent's latest look, for the executor."""
        if not self.agent:
            return None
        version = self.shows if self.answers else None
        at = self.timeline.awake_at(self.timeline.monotonic).seconds
        return ShownKubelet(at=at, answered=self.answers, version=version)
