"""How pods are confined: seccomp profiles, groups, user namespaces; and labels by which they were placed."""

import contextlib
import json
from collections.abc import Iterator

from e2e import pods
from e2e.changes import added
from e2e.cluster import Cluster, Object
from e2e.lab import nodefiles, workload
from e2e.lab.process import wait_until
from e2e.preflight.kinds.admission import REJECTED
from e2e.preflight.kinds.kubelet import STATE
from e2e.preflight.kinds.node import without_controllers
from e2e.preflight.kinds.pods import having
from e2e.preflight.row import WARNED, Row

ARCHITECTURE = ("kubernetes.io/arch", "beta.kubernetes.io/arch")
"""Controllers put them right after some seconds."""
PROFILE = "nodeupgrade-test.json"
COULD_NOT = "ContainerCouldNotRestart"


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
def platform_wrong(cluster: Cluster) -> Iterator[Object]:
    """Place a pod by a label of the platform that is wrong, and that a starting kubelet corrects."""
    labels = cluster.node_object()["metadata"]["labels"]
    before = [f"{key}={labels[key]}" for key in ARCHITECTURE]
    label = ("label", "--overwrite", "node", cluster.node.name)
    body = pods.pod(cluster, "misplaced", nodeSelector={ARCHITECTURE[0]: "arm64"})
    with without_controllers(cluster):
        cluster.lab.kubectl(*label, *(f"{key}=arm64" for key in ARCHITECTURE))
        try:
            with pods.running(cluster, body):
                yield {}
        finally:
            cluster.lab.kubectl(*label, *before)


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
    Row(name="admission/platform-wrong", shows="labels_tell_the_platform", reason=REJECTED, make=platform_wrong),
    Row(name="admission/static-pod", shows="static_pods_stand_alone", reason=REJECTED,
        make=static_pod_with_volume, new="1.34.4", spec={"skewPolicy": "Warn"}),
)  # fmt: skip
