"""Reads pods: their names, their containers, and which of those a kubelet compares."""

from collections.abc import Mapping

from . import changes
from .changes import supported_minor
from .errors import Misfit, UnreadablePod
from .go import values
from .kubelet_version import KubeletVersion

Pod = Mapping[str, object]
Container = Mapping[str, object]


def pod_name(pod: Pod) -> str:
    """Return the pod's name; empty if it has none."""
    metadata = pod.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def compared_containers(pod: Pod, kubelet: KubeletVersion | str) -> tuple[str, ...]:
    """Return the names of the containers whose hash a kubelet compares while they run.

    These are all regular containers and, from 1.32 on, sidecars (init containers with `restartPolicy: Always`); never
    other init containers or ephemeral containers. Follows `computePodActions` in `pkg/kubelet/kuberuntime`.

    Raises:
        UnsupportedKubelet: the tables do not cover this kubelet.
        UnreadablePod: the object is not shaped like a pod.
    """
    compared = [*regular_containers(pod)]
    if changes.SIDECARS_COMPARED.covers(supported_minor(kubelet)):
        compared += [each for each in init_containers(pod) if is_sidecar(each)]
    return tuple(container_name(pod, each) for each in compared)


def regular_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the entries of `spec.containers`.

    Raises:
        UnreadablePod: the object is not shaped like a pod.
    """
    return _containers(pod, "containers", pod_spec(pod).get("containers"))


def init_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the entries of `spec.initContainers`, including sidecars.

    Raises:
        UnreadablePod: the object is not shaped like a pod.
    """
    listed = pod_spec(pod).get("initContainers")
    return () if listed is None else _containers(pod, "initContainers", listed)


def is_sidecar(init_container: Container) -> bool:
    """Report whether an init container is a sidecar, which keeps running alongside the regular containers."""
    return init_container.get("restartPolicy") == "Always"


def container_name(pod: Pod, container: Container) -> str:
    """Return the name of one of a pod's containers.

    Raises:
        UnreadablePod: the container has no name.
    """
    name = container.get("name")
    if not isinstance(name, str) or not name:
        raise UnreadablePod(pod_name(pod), "spec.containers", "a container has no name")
    return name


def pod_spec(pod: Pod) -> Mapping[str, object]:
    """Return the pod's `spec`.

    Raises:
        UnreadablePod: the pod has no spec, or it is not a map.
    """
    try:
        return values.mapping(pod.get("spec"))
    except Misfit as error:
        raise UnreadablePod(pod_name(pod), "spec", error.reason) from None


def _containers(pod: Pod, key: str, listed: object) -> tuple[Container, ...]:
    try:
        return tuple(values.mapping(each) for each in values.sequence(listed))
    except Misfit as error:
        raise UnreadablePod(pod_name(pod), f"spec.{key}", error.reason) from None
