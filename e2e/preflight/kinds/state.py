"""The files in which kubelets keep what they have allotted."""

import contextlib
import json
from collections.abc import Iterator

from e2e import pods
from e2e.changes import added, changed, kubelet_settings
from e2e.cluster import Cluster, Object
from e2e.preflight.kinds.admission import GUARANTEED, REJECTED, memory_manager
from e2e.preflight.kinds.kubelet import ACCEPT, ACCEPTED, STATE, WOULD_NOT_START
from e2e.preflight.row import Hazard, Row

STATIC = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0"}


def damaged(name: str) -> Hazard:
    """Leave a file behind that no kubelet can read."""

    @contextlib.contextmanager
    def make(cluster: Cluster) -> Iterator[Object]:
        with added(cluster.node, f"{STATE}/{name}", "{"):
            yield {}

    return make


@contextlib.contextmanager
def static(cluster: Cluster, cpus: str) -> Iterator[None]:
    """Let the policy be static on the disk, in the configuration and in the state file."""

    def kept(text: str) -> str:
        return json.dumps(json.loads(text) | {"policyName": "static", "defaultCpuSet": cpus, "checksum": 0})

    with (
        changed(cluster.node, f"{STATE}/cpu_manager_state", kept),
        kubelet_settings(cluster.node, restart=False, **STATIC),
    ):
        yield


@contextlib.contextmanager
def other_cpus(cluster: Cluster) -> Iterator[Object]:
    """Let the state file be one of a machine with more CPUs."""
    with static(cluster, "0-1023"):
        yield {}


@contextlib.contextmanager
def cpus_unrecorded(cluster: Cluster) -> Iterator[Object]:
    """Have a pod with a CPU of its own that the state file does not name."""
    online = (cluster.node.root / "sys/devices/system/cpu/online").read_text().strip()
    with pods.running(cluster, pods.pod(cluster, "pinned", GUARANTEED)), static(cluster, online):
        yield {}


ROWS = (
    Row(name="state/resized-pods", shows="resized_pods_are_readable", reason=WOULD_NOT_START,
        make=damaged("allocated_pods_state")),
    Row(name="state/claims", shows="claims_are_readable", reason=WOULD_NOT_START, new="1.34.4",
        make=damaged("dra_manager_state"), spec={"skewPolicy": "Warn"}),
    Row(name="state/other-cpus", shows="pinned_cpus_are_there", reason=WOULD_NOT_START, make=other_cpus,
        spec=ACCEPT, also=ACCEPTED),
    Row(name="state/cpus-unrecorded", shows="exclusive_cpus_are_recorded", reason=REJECTED, make=cpus_unrecorded,
        spec=ACCEPT, also=ACCEPTED | {"pods_fit"}),
    Row(name="state/memory-unrecorded", shows="exclusive_memory_is_recorded", reason=REJECTED, make=memory_manager,
        spec=ACCEPT, also=ACCEPTED | {"memory_is_not_reckoned_twice"}),
)  # fmt: skip
