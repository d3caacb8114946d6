"""What an agent keeps in memory of the pods that it watches."""

from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.cluster.kube_api import Keep
from nodeupgrade.node.agent.pod_watch import PodWatch
from nodeupgrade.node.agent.settings import AgentSettings
from tests.doubles.kube_fleet import pod_object

SETTINGS = AgentSettings(node=NodeName("node-0"), task="node-0", run_id=RunId("run"), namespace="nodeupgrade-system")


class Kube:
    """Serves a pod whose container has very many arguments."""

    async def list_pods_on_node(self, node: str, keep: Keep) -> list[Json]:
        pod: dict[str, Any] = pod_object("web", node)
        pod["metadata"]["uid"] = "web-1"
        pod["spec"]["containers"][0]["args"] = ["ab"] * 100_000
        return [keep(pod)]


async def test_little_is_kept_of_a_large_pod() -> None:
    watch = PodWatch(SETTINGS, Kube())  # type: ignore[arg-type]

    await watch.refresh()

    assert len(str(watch.flaps.pods["web-1"].raw)) < 1000
