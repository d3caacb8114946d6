"""The container runtimes that a node of the lab may have."""

from collections.abc import Mapping

from e2e.lab.errors import LabError
from e2e.lab.runtimes.containerd import Containerd
from e2e.lab.runtimes.containerd2 import Containerd2
from e2e.lab.runtimes.containerd_elsewhere import ContainerdElsewhere
from e2e.lab.runtimes.crio import Crio
from e2e.lab.runtimes.docker import Docker
from e2e.lab.runtimes.runtime import LabRuntime

__all__ = ["RUNTIMES", "LabRuntime", "runtime_named"]

_ALL: tuple[LabRuntime, ...] = (
    Containerd(),
    Containerd2(),
    ContainerdElsewhere(),
    Crio(),
    Docker(),
)
RUNTIMES: Mapping[str, LabRuntime] = {runtime.name: runtime for runtime in _ALL}


def runtime_named(name: str) -> LabRuntime:
    """Return a runtime by its name.

    Raises:
        LabError: there is none of that name.
    """
    if name not in RUNTIMES:
        raise LabError(f"there is no runtime {name}; choose one of {', '.join(RUNTIMES)}")
    return RUNTIMES[name]
