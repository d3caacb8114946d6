"""Whether the hashes that a real kubelet has stored are those that ``kubelethash`` computes."""

from e2e.cluster import Cluster
from e2e.lab.cluster import podstatus
from e2e.lab.workloads import workload
from nodeupgrade.kubelethash import KubeletVersion, detect, hash_container


def assert_reproduced(cluster: Cluster, version: str) -> None:
    """Assert that the kubelet which created all containers stored for each of the workload's what we compute.

    Args:
        cluster: Its node.
        version: The kubelet's version.
    """
    found = cluster.lab.api.list("pods", namespace=workload.NAMESPACE)
    pods = [pod for pod in found if not podstatus.is_mirror(pod)]
    specs = {
        (pod["metadata"]["uid"], container["name"]): container
        for pod in pods
        for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", []))
    }
    stored = {
        (c.pod, c.name): (specs[c.pod_uid, c.name], c.stored_hash)
        for c in cluster.node.snapshot().containers
        if (c.pod_uid, c.name) in specs
    }

    assert len(stored) == len(specs) > len(pods)
    computed = {key: hash_container(spec, version) for key, (spec, _) in stored.items()}
    assert computed == {key: found for key, (_, found) in stored.items()}
    series = {known.series for known in detect(list(stored.values()))}
    assert KubeletVersion.parse(version).series in series
