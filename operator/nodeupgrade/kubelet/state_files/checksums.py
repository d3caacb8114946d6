"""The checksums of state files: FNV-1a of go-spew's output for the Go structs in the kubelet.

A kubelet recomputes them when it starts. On a mismatch it exits or, for devices, discards its state. A file
with fields that are not known here counts as sound, since a kubelet that knows them would print them too.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from zlib import crc32

from nodeupgrade.kubelet.state_files.spew import (
    MalformedStateError,
    Printer,
    UnknownFieldError,
    byte_slice,
    map_of,
    members_of,
    number,
    of_kind,
    pointer_to,
    slice_of,
    string,
    struct_of,
)
from nodeupgrade.kubelethash import fnv1a

Document = Mapping[str, Any]
"""A state file's fields, with names in lower case."""
KNOWN_OF_CPUS = frozenset({"policyname", "defaultcpuset", "entries", "checksum", "data", "datachecksum"})
KNOWN_OF_MEMORY = frozenset({"policyname", "machinestate", "entries", "checksum", "data", "datachecksum"})


def memory_checksum(document: Document) -> int:
    """Return the checksum of memory_manager_state.

    Raises:
        MalformedStateError, UnknownFieldError: it cannot be computed.
    """
    return fnv1a(_checked("state.MemoryManagerCheckpoint", _MEMORY_STATE, document).encode())


def device_checksum(content: Any) -> int:
    """Return the checksum of the data in the device checkpoint.

    Raises:
        MalformedStateError, UnknownFieldError: it cannot be computed.
    """
    return fnv1a(f"(checkpoint.checkpointData){_device_data(content)}".encode())


def text_checksum(text: str) -> int:
    """Return the checksum of a text: of resized pods, or of the managers' data from 1.37 on."""
    return fnv1a(f"(string){string(text)}".encode())


def cpu_formats(document: Document) -> frozenset[int] | None:
    """Return the formats, 1 or 2, under which the checksum of cpu_manager_state is right; ``None`` if unknown.

    Without containers, both formats look alike apart from their checksum. One of 0 is accepted as either.
    """
    if document.keys() - KNOWN_OF_CPUS:
        return None
    checksum = document.get("checksum", 0)
    if checksum == 0:
        return frozenset(_CPU_STATES)
    return frozenset(
        n for n, state in _CPU_STATES.items() if is_checksum(checksum, partial(_checksum, state, document))
    )


def memory_is_sound(document: Document) -> bool:
    """Report whether the checksum of memory_manager_state is right; its fields must be known."""
    return is_checksum(document.get("checksum"), partial(memory_checksum, document))


def claims_are_sound(document: Document) -> bool:
    """Report whether dra_manager_state has a checksum, and the right one, a CRC-32, if it is that of a text."""
    text = document.get("data")
    sound = not isinstance(text, str) or crc32(text.encode(errors="replace")) == document.get("checksum")
    return "checksum" in document and sound


def _checksum(printed: Printer, value: Any) -> int:
    return fnv1a(printed(value).encode())


def is_checksum(checksum: object, compute: Callable[[], int]) -> bool:
    """Report whether a checksum is right; True if it cannot be computed because a field is unknown."""
    try:
        return compute() == checksum
    except UnknownFieldError:
        return True
    except MalformedStateError:
        return False


def _cpu_state(type_: str, entry: Printer) -> Printer:
    members = {
        "PolicyName": ("policyName", "string", string),
        "DefaultCPUSet": ("defaultCpuSet", "string", string),
        "Entries": ("entries", f"map[string]{type_}", map_of(entry, absent="map[]")),
    }
    return lambda value: _checked("state.CPUManagerCheckpoint", members, value)


def _checked(name: str, members: Mapping[str, tuple[str, str, Printer]], value: Any) -> str:
    """Print a checkpoint as it is while its checksum is computed."""
    return f"(*{name}){members_of(members, value)[:-1]} Checksum:(checksum.Checksum)0}}"


_CPU_STATES = {1: _cpu_state("string", string), 2: _cpu_state("map[string]string", map_of(string))}

_memory_table = struct_of(
    TotalMemSize=("total", "uint64", number),
    SystemReserved=("systemReserved", "uint64", number),
    Allocatable=("allocatable", "uint64", number),
    Reserved=("reserved", "uint64", number),
    Free=("free", "uint64", number),
)
_numa_node = struct_of(
    NumberOfAssignments=("numberOfAssignments", "int", number),
    MemoryMap=("memoryMap", "map[v1.ResourceName]*state.MemoryTable", map_of(pointer_to(_memory_table))),
    Cells=("cells", "[]int", slice_of(number)),
)
_block = struct_of(
    NUMAAffinity=("numaAffinity", "[]int", slice_of(number)),
    Type=("type", "v1.ResourceName", string),
    Size=("size", "uint64", number),
)
_MEMORY_STATE = {
    "PolicyName": ("policyName", "string", string),
    "MachineState": ("machineState", "state.NUMANodeMap", map_of(pointer_to(_numa_node), key=int, absent="map[]")),
    "Entries": ("entries", "state.ContainerMemoryAssignments", map_of(map_of(slice_of(_block)), absent="map[]")),
}


def _device_ids(value: Any) -> str:
    listed = slice_of(string)
    return listed(value) if isinstance(value, list) else map_of(listed, key=int)(value)


def _device_entry(value: Any) -> str:
    """Print an entry; up to 1.19 it lists devices, from 1.20 on by NUMA node."""
    ids = of_kind(dict, value).get("DeviceIDs")
    type_ = "[]string" if isinstance(ids, list) else "checkpoint.DevicesPerNUMA"
    return struct_of(
        PodUID=("PodUID", "string", string),
        ContainerName=("ContainerName", "string", string),
        ResourceName=("ResourceName", "string", string),
        DeviceIDs=("DeviceIDs", type_, _device_ids),
        AllocResp=("AllocResp", "[]uint8", byte_slice),
    )(value)


_device_data = struct_of(
    PodDeviceEntries=("PodDeviceEntries", "[]checkpoint.PodDevicesEntry", slice_of(_device_entry, absent="[]")),
    RegisteredDevices=("RegisteredDevices", "map[string][]string", map_of(slice_of(string), absent="map[]")),
)
