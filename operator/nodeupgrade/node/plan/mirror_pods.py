"""Tell mirror pods from pods that only say that they are some, as whoever may create pods may have one say.

A mirror pod stands for a static pod, whose UID is that of an annotation. The API server checks nothing of it but that
the pod is bound to a node. Kubelets pair the two by their full name, and delete what mirrors nothing; but somebody may
create it again, or keep it with a finalizer, and while no kubelet runs nobody deletes it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from nodeupgrade.api.values import FullName, PodRef, PodUid
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.node.plan.static_pod_uids import full_names
from nodeupgrade.node.runtimes.inventory import Inventory


def without_pretenders(
    pods: Iterable[Pod], inventory: Inventory, manifests: Mapping[str, bytes], node_name: str
) -> tuple[Pod, ...]:
    """Return the pods of the API server without those that mirror no static pod of the node, or another pod."""
    static = {sandbox.pod.full_name for sandbox in inventory.sandboxes if sandbox.is_static}
    static |= full_names(manifests.values(), node_name)
    mirroring = (pod for pod in pods if not pod.mirror or pod.ref.full_name in static)
    return each_for_itself(mirroring, (sandbox.pod for sandbox in inventory.sandboxes))


def each_for_itself(pods: Iterable[Pod], running: Iterable[PodRef]) -> tuple[Pod, ...]:
    """Return the pods of the API server without mirror pods that claim the UID of another pod.

    The runtime knows whose UID it is. Where it does not, a UID that several pods claim is that of none of the mirrors.
    """
    pods = tuple(pods)
    owners: Mapping[PodUid, FullName] = {ref.uid: ref.full_name for ref in running}
    claims: defaultdict[PodUid, set[FullName]] = defaultdict(set)
    for pod in pods:
        claims[pod.ref.uid].add(pod.ref.full_name)

    def is_its_own(ref: PodRef) -> bool:
        owner = owners.get(ref.uid)
        return len(claims[ref.uid]) == 1 if owner is None else owner == ref.full_name

    return tuple(pod for pod in pods if not pod.mirror or is_its_own(pod.ref))
