"""Reads which versions the API servers have, where they run as pods that the cluster shows."""

from collections.abc import Iterator

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet
from nodeupgrade.ports.kube import PODS, KubeApi, RejectedError

NAMESPACE = "kube-system"
LABELS = {"component": "kube-apiserver"}
"""Labels that kubeadm and most other installers give to their pods."""


async def read_api_servers(kube: KubeApi) -> tuple[KubeletVersion, ...]:
    """Return the versions of the API servers; empty if none is shown, as in a managed control plane.

    What answers under one address may be any of several servers, and each may have another version.
    """
    try:
        pods = await kube.list(PODS.within(NAMESPACE), labels=LABELS)
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
