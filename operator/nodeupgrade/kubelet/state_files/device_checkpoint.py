"""The checkpoint of a kubelet's device manager: which container has which devices of device plugins."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from nodeupgrade.kubelet.state_files.checksums import device_checksum, is_checksum
from nodeupgrade.kubelet.state_files.fields import fields

Holding = tuple[str, str, str]
"""UID of the pod, name of the container, and resource."""


@dataclass(frozen=True, slots=True)
class DeviceCheckpoint:
    """The content of the checkpoint."""

    resources: frozenset[str]  # the resources of device plugins that have registered
    allocated: Mapping[str, int]  # how many devices of each resource containers have
    holdings: frozenset[Holding]  # the containers that have devices
    # whether devices are listed as by kubelets up to 1.19, and not by NUMA node; False if there are none
    flat: bool = False


@lru_cache(maxsize=4)
def read_devices(data: bytes | None) -> DeviceCheckpoint | None:
    """Parse a checkpoint; ``None`` if there is none, or a kubelet would discard it."""
    document = fields(data)
    try:
        content = document["data"]
        entries = content.get("PodDeviceEntries") or ()
        holdings = frozenset((str(e["PodUID"]), str(e["ContainerName"]), str(e["ResourceName"])) for e in entries)
        resources = frozenset(map(str, content.get("RegisteredDevices") or ()))
        allocated = Counter[str]()
        flat = any(isinstance(entry["DeviceIDs"], list) for entry in entries)
        for entry in entries:
            allocated[str(entry["ResourceName"])] += _count(entry["DeviceIDs"])
    except (KeyError, TypeError, AttributeError):
        return None
    sound = is_checksum(document.get("checksum"), partial(device_checksum, content))
    return DeviceCheckpoint(resources, allocated, holdings, flat) if sound else None


def _count(listed: Any) -> int:
    """Count devices; kubelets from 1.20 on list them by NUMA node."""
    return sum(map(len, listed.values())) if isinstance(listed, Mapping) else len(listed or ())
