"""How pods are confined, and what static pods refer to."""

import contextlib
import json
from collections.abc import Iterator

from e2e import pods
from e2e.changes import added
from e2e.cluster import Cluster, Object
from e2e.lab.nodes import nodefiles
from e2e.lab.process import wait_until
from e2e.lab.workloads import workload
from e2e.preflight.kinds.admission import REJECTED
from e2e.preflight.kinds.kubelet import STATE
from e2e.preflight.kinds.pods import having
from e2e.preflight.row import WARNED, Row

PROFILE = "nodeupgrade-test.json"
COULD_NOT = "ContainerWouldNotRestart"


@contextlib.contextmanager
def profile_gone(cluster: Cluster) -> Iterator[Object]:
    """Remove a seccomp profile that a pod was started with."""
    profile = {"seccompProfile": {"type": "Localhost", "localhostProfile": PROFILE}}
    body = pods.pod(cluster, "confined", securityContext=profile)
    file = f"{STATE}/seccomp/{PROFILE}"
    with contextlib.ExitStack() as stack:
        with added(cluster.node, file, '{"defaultAction": "SCMP_ACT_ALLOW"}'):
            stack.enter_context(pods.running(cluster, body))
        yield {}


@contextlib.contextmanager
def static_pod_with_volume(cluster: Cluster) -> Iterator[Object]:
    """Let a static pod name a volume of the API that it can do without."""
    manifest = workload.static_pod("referring").replace("8099", "8098")
    source = {"name": "api", "configMap": {"name": "absent", "optional": True}}
    text = manifest.replace('"hostNetwork": true', f'"hostNetwork": true, "volumes": [{json.dumps(source)}]')
    path = f"{nodefiles.STATIC_PODS}/referring.json"
    with added(cluster.node, path, text):
        wait_until("the static pod", lambda: cluster.runs("referring") or None, timeout=120)
        yield {}
    wait_until("its end", lambda: not cluster.runs("referring") or None, timeout=120)


ROWS = (
    Row(name="confined/profile-gone", shows="seccomp_profiles_are_there", reason=COULD_NOT, ends=WARNED,
        make=profile_gone),
    Row(name="confined/groups-policy", shows="groups_policy_is_supported", reason=REJECTED,
        make=having(securityContext={"supplementalGroupsPolicy": "Strict"})),
    Row(name="admission/static-pod", shows="static_pods_stand_alone", reason=REJECTED,
        make=static_pod_with_volume, new="1.34.4", spec={"skewPolicy": "Warn"}),
)  # fmt: skip
