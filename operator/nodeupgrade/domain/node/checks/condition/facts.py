"""The facts that tell what pods and containers are doing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.domain.agent_pods import RUN_LABEL
from nodeupgrade.domain.node.inventory import ContainerInstance, Inventory
from nodeupgrade.domain.pods import Pod, container_statuses
from nodeupgrade.kubelethash import KubeletVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConditions:
    """The facts that the checks judge.

    Attributes:
        pods: the node's pods from the API server; manifests show nothing of what happens.
        inventory: what the runtime holds.
        current: version of the running kubelet; ``None`` if unknown.
        now: the present time by the node's clock.
        lasts: how long a run may take, from the kubelet's stop to the end of its watch.
    """

    pods: tuple[Pod, ...]
    inventory: Inventory
    current: KubeletVersion | None
    target: KubeletVersion
    now: datetime
    lasts: timedelta

    def active(self) -> Iterator[Pod]:
        """Return the pods that have not ended, without this project's own."""
        return (pod for pod in self.pods if not pod.finished and RUN_LABEL not in pod.labels)

    def held(self, pod: Pod) -> Iterator[ContainerInstance]:
        """Return the containers of a pod that the runtime holds, running or not."""
        return (container for container in self.inventory.containers if container.pod.uid == pod.ref.uid)


def statuses_of(pod: Pod) -> dict[str, Json]:
    """Return the statuses of a pod's containers as the API serves them, by name."""
    return {str(status.get("name")): status for status in container_statuses(pod.raw.get("status") or {})}


def moment(text: object) -> datetime | None:
    """Read a time as the API serves it; ``None`` if it is none, or of no time zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None
