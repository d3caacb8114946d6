"""The versions of the API servers that run as visible pods, each of which may answer under one address."""

from collections.abc import Iterator

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import PODS, KubeApi, RejectedError
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet

_SYSTEM = "kube-system"
_API_SERVERS = {"component": "kube-apiserver"}
"""Labels that kubeadm and most other installers give to their pods."""


async def read_api_servers(kube: KubeApi) -> tuple[KubeletVersion, ...]:
    """Return the versions of the API servers that run as pods; empty if none is shown, as in a managed control plane.

    What answers under one address may be any of several servers, and each may have another version.
    """
    try:
        pods = await kube.list(PODS.within(_SYSTEM), labels=_API_SERVERS)
    except RejectedError:  # somebody who may not see these pods can plan nevertheless
        return ()
    return tuple(version for pod in pods for version in _versions(pod))


def _versions(pod: Json) -> Iterator[KubeletVersion]:
    if (pod.get("metadata") or {}).get("deletionTimestamp") is not None:
        return
    for container in (pod.get("spec") or {}).get("containers") or ():
        image, _, tag = str(container.get("image") or "").partition("@")[0].rpartition(":")
        if "kube-apiserver" not in image:
            continue
        try:
            yield KubeletVersion.parse(tag.replace("_", "+"))
        except UnsupportedKubelet:
            continue
