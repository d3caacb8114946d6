"""The checkpoint of a kubelet's device manager: which container has which devices of device plugins."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.kubelet.state_files.checksums import device_checksum, is_checksum
from nodeupgrade.kubelet.state_files.fields import fields
from nodeupgrade.kubelethash import KubeletVersion

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
        holdings = frozenset(map(_holding, entries))
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


def unread_format(checkpoint: DeviceCheckpoint, kubelet: KubeletVersion) -> str | None:
    """Return the reference for why a kubelet cannot read the format; ``None`` if it can, or there are no devices."""
    listed_by_node, dropped = history.DEVICE_CHECKPOINT_V2, history.DEVICE_CHECKPOINT_V1_UNREAD
    if not checkpoint.holdings:
        return None
    if not checkpoint.flat:
        return None if listed_by_node.applies_to(kubelet) else listed_by_node.reference
    if known_defects.DEVICES_FORGOTTEN.affects(kubelet):
        return known_defects.DEVICES_FORGOTTEN.reference
    return dropped.reference if dropped.applies_to(kubelet) else None


def with_newcomers(saved: bytes, written: bytes | None) -> bytes:
    """Return a checkpoint of a kubelet up to 1.19 with the devices that a newer kubelet has given to other pods.

    Args:
        saved: the checkpoint as the old kubelet wrote it.
        written: as the newer one wrote it since; ``None`` if there is none.
    """
    older, newer = read_devices(saved), read_devices(written)
    if older is None or newer is None or newer.flat or not (came := newer.holdings - older.holdings):
        return saved
    try:
        content = fields(saved)["data"]
        listed = [entry for entry in fields(written)["data"]["PodDeviceEntries"] if _holding(entry) in came]
        flat = [{**entry, "DeviceIDs": [id_ for ids in entry["DeviceIDs"].values() for id_ in ids]} for entry in listed]
        both = {**content, "PodDeviceEntries": [*(content["PodDeviceEntries"] or ()), *flat]}
        return json.dumps({"Data": both, "Checksum": device_checksum(both)}, separators=(",", ":")).encode()
    except (KeyError, TypeError, AttributeError, ValueError):  # which no kubelet writes
        return saved


def _holding(entry: Mapping[str, Any]) -> Holding:
    return str(entry["PodUID"]), str(entry["ContainerName"]), str(entry["ResourceName"])
