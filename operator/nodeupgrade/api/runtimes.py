"""The supported container runtimes. Each has an adapter, which a test ensures."""

from collections.abc import Mapping
from enum import StrEnum


class SupportedRuntime(StrEnum):
    """Runtimes by their name in the CRI and in a Node's ``containerRuntimeVersion``."""

    CONTAINERD = "containerd"
    DOCKER = "docker"
    CRIO = "cri-o"


TREATMENTS: Mapping[str, str] = {
    SupportedRuntime.CONTAINERD: "restarted once",
    SupportedRuntime.DOCKER: "stopped and started once, without a shield",
    SupportedRuntime.CRIO: "restarted once; all but 1.33, 1.34 and 1.36 refused unless runtime_is_proven is accepted",
}
"""What a run does to a runtime; that its adapter does just that is ensured by a test."""


BUNDLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    SupportedRuntime.CONTAINERD: (("/run/containerd/io.containerd.runtime.v2.task/k8s.io", ""),),
    SupportedRuntime.DOCKER: (
        ("/run/containerd/io.containerd.runtime.v2.task/moby", ""),
        ("/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby", ""),
    ),
    SupportedRuntime.CRIO: (("/run/containers/storage/overlay-containers", "userdata"),),
}
"""Where a runtime keeps the OCI specification of a container by default: what is above and below its ID."""


def treatment(name: str) -> str:
    """Return what a run does to a runtime of that name, for messages."""
    return TREATMENTS.get(name, "not supported")


def is_supported(name: str) -> bool:
    """Report whether nodes with a runtime of that name can be upgraded."""
    return name in set(SupportedRuntime)


def supported_runtimes() -> str:
    """Return a clause that names all supported runtimes, for messages."""
    *others, last = SupportedRuntime
    return f"{', '.join(others)} and {last} are supported" if others else f"{last} is supported"
