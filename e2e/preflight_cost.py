"""Measure on a real node how long an agent takes from its first look at a node to everything that it has found."""

import json
from collections.abc import Iterator

from e2e.cluster import Cluster
from e2e.lab.cluster import deploy
from e2e.lab.process import wait_until
from nodeupgrade.cluster.agent_pods import AGENT_LABELS

PLAN_SECONDS = 240


def seconds(cluster: Cluster, version: str, name: str = "preflight-cost") -> float:
    """Plan an upgrade, and return what the agent says its examination took. Nothing is touched."""
    cluster.apply(name, version, cluster.pre_staged(version), action="Plan", allowDowngrade=True, skewPolicy="Warn")
    try:
        return wait_until("the agent's examination", lambda: next(_told(cluster), None), timeout=PLAN_SECONDS)
    finally:
        cluster.delete(name)
        cluster.wait_without_agent()


def _told(cluster: Cluster) -> Iterator[float]:
    """Yield the seconds of every examination in the agent's log; the pod may be gone, or not be there yet."""
    labels = ",".join(f"{key}={value}" for key, value in AGENT_LABELS.items())
    log = cluster.lab.kubectl("logs", "--namespace", deploy.NAMESPACE, "--selector", labels, "--tail=-1", check=False)
    for line in log.stdout.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and told.get("event") == "node_examined":
            yield float(told["seconds"])
