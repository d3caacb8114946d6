"""The checksums of state files: FNV-1a of what go-spew prints of the Go structs that the kubelet keeps them in.

A kubelet recomputes them when it starts. With another checksum it exits, or, for devices, forgets what it had. A file
with fields that are not known here counts as sound, since a kubelet that knows them would print them too.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from zlib import crc32

from nodeupgrade.kubelethash import fnv1a

Document = Mapping[str, Any]
"""A state file's fields, with names in lower case."""

_Print = Callable[[Any], str]
_ABSENT = object()

KNOWN_OF_CPUS = frozenset({"policyname", "defaultcpuset", "entries", "checksum", "data", "datachecksum"})
_KNOWN_OF_MEMORY = frozenset({"policyname", "machinestate", "entries", "checksum", "data", "datachecksum"})


_SURROGATE = re.compile("[\ud800-\udfff]")
"""Go reads half a character as U+FFFD."""


class UnknownFieldError(ValueError):
    """A struct has a field that is not known here."""


class MalformedStateError(ValueError):
    """A value is not of the type that Go reads it as."""


def memory_checksum(document: Document) -> int:
    """Return the checksum of memory_manager_state.

    Raises:
        MalformedStateError, UnknownFieldError: nobody can tell.
    """
    return fnv1a(_checked("state.MemoryManagerCheckpoint", _MEMORY_STATE, document).encode())


def device_checksum(content: Any) -> int:
    """Return the checksum of what the checkpoint of devices has as its data.

    Raises:
        MalformedStateError, UnknownFieldError: nobody can tell.
    """
    return fnv1a(f"(checkpoint.checkpointData){_device_data(content)}".encode())


def text_checksum(text: str) -> int:
    """Return the checksum of a text: of resized pods, or of the managers' data from 1.37 on."""
    return fnv1a(f"(string){_text(text)}".encode())


def cpu_formats(document: Document) -> frozenset[int] | None:
    """Return the formats, 1 or 2, under which the checksum of cpu_manager_state is right; ``None`` if unknown.

    Without containers, both formats look alike apart from their checksum. One of 0 is accepted as either.
    """
    if document.keys() - KNOWN_OF_CPUS:
        return None
    checksum = document.get("checksum", 0)
    if checksum == 0:
        return frozenset(_CPU_STATES)
    return frozenset(n for n, state in _CPU_STATES.items() if _is(checksum, partial(_checksum, state, document)))


def memory_is_sound(document: Document) -> bool:
    """Report whether the checksum of memory_manager_state is right."""
    unknown = document.keys() - _KNOWN_OF_MEMORY
    return bool(unknown) or _is(document.get("checksum"), partial(memory_checksum, document))


def claims_are_sound(document: Document) -> bool:
    """Report whether dra_manager_state has a checksum, and the right one, a CRC-32, if it is that of a text."""
    text = document.get("data")
    sound = not isinstance(text, str) or crc32(text.encode(errors="replace")) == document.get("checksum")
    return "checksum" in document and sound


def _checksum(printed: _Print, value: Any) -> int:
    return fnv1a(printed(value).encode())


def _is(checksum: object, compute: Callable[[], int]) -> bool:
    try:
        return compute() == checksum
    except UnknownFieldError:
        return True
    except MalformedStateError:
        return False


# --- what go-spew prints, by Go's kinds ---


def _text(value: Any) -> str:
    return "" if value in (None, _ABSENT) else _SURROGATE.sub("\ufffd", _of(str, value))


def _number(value: Any) -> str:
    return "0" if value in (None, _ABSENT) else str(_of(int, value))


def _bytes(value: Any) -> str:
    if value in (None, _ABSENT):
        return "<nil>"
    try:
        return f"[{' '.join(map(str, base64.b64decode(_of(str, value), validate=True)))}]"
    except ValueError as error:
        raise MalformedStateError from error


def _list(item: _Print, absent: str = "<nil>") -> _Print:
    def print_(value: Any) -> str:
        if value is None or value is _ABSENT:
            return "<nil>" if value is None else absent
        return f"[{' '.join(map(item, _of(list, value)))}]"

    return print_


def _map(item: _Print, key: Callable[[str], Any] = str, absent: str = "<nil>") -> _Print:
    def print_(value: Any) -> str:
        if value is None or value is _ABSENT:
            return "<nil>" if value is None else absent
        try:
            given = sorted((key(name), each) for name, each in _of(dict, value).items())
        except ValueError as error:
            raise MalformedStateError from error
        return f"map[{' '.join(f'{name}:{item(each)}' for name, each in given)}]"

    return print_


def _pointer(item: _Print) -> _Print:
    return lambda value: "<nil>" if value is None else f"<*>{item(value)}"


def _struct(**members: tuple[str, str, _Print]) -> _Print:
    """Print a struct: by Go's name of a field, its name in JSON, its type and how its value is printed."""

    def print_(value: Any) -> str:
        given = {name.lower(): each for name, each in _of(dict, value).items()}
        if given.keys() - {key.lower() for key, _, _ in members.values()}:
            raise UnknownFieldError
        return _members(members, given)

    return print_


def _members(members: Mapping[str, tuple[str, str, _Print]], given: Mapping[str, Any]) -> str:
    shown = (
        f"{name}:({type_}){print_(given.get(key.lower(), _ABSENT))}" for name, (key, type_, print_) in members.items()
    )
    return f"{{{' '.join(shown)}}}"


def _of(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise MalformedStateError
    return value


# --- the kubelet's structs ---


def _cpu_state(type_: str, entry: _Print) -> _Print:
    members = {
        "PolicyName": ("policyName", "string", _text),
        "DefaultCPUSet": ("defaultCpuSet", "string", _text),
        "Entries": ("entries", f"map[string]{type_}", _map(entry, absent="map[]")),
    }
    return lambda value: _checked("state.CPUManagerCheckpoint", members, value)


def _checked(name: str, members: Mapping[str, tuple[str, str, _Print]], value: Any) -> str:
    """Print a checkpoint as it is while its checksum is computed."""
    return f"(*{name}){_members(members, value)[:-1]} Checksum:(checksum.Checksum)0}}"


_CPU_STATES = {1: _cpu_state("string", _text), 2: _cpu_state("map[string]string", _map(_text))}

_memory_table = _struct(
    TotalMemSize=("total", "uint64", _number),
    SystemReserved=("systemReserved", "uint64", _number),
    Allocatable=("allocatable", "uint64", _number),
    Reserved=("reserved", "uint64", _number),
    Free=("free", "uint64", _number),
)
_numa_node = _struct(
    NumberOfAssignments=("numberOfAssignments", "int", _number),
    MemoryMap=("memoryMap", "map[v1.ResourceName]*state.MemoryTable", _map(_pointer(_memory_table))),
    Cells=("cells", "[]int", _list(_number)),
)
_block = _struct(
    NUMAAffinity=("numaAffinity", "[]int", _list(_number)),
    Type=("type", "v1.ResourceName", _text),
    Size=("size", "uint64", _number),
)
_MEMORY_STATE = {
    "PolicyName": ("policyName", "string", _text),
    "MachineState": ("machineState", "state.NUMANodeMap", _map(_pointer(_numa_node), key=int, absent="map[]")),
    "Entries": ("entries", "state.ContainerMemoryAssignments", _map(_map(_list(_block)), absent="map[]")),
}


def _device_ids(value: Any) -> str:
    listed = _list(_text)
    return listed(value) if isinstance(value, list) else _map(listed, key=int)(value)


def _device_entry(value: Any) -> str:
    """Print an entry; up to 1.19 it lists devices, from 1.20 on by NUMA node."""
    ids = _of(dict, value).get("DeviceIDs")
    type_ = "[]string" if isinstance(ids, list) else "checkpoint.DevicesPerNUMA"
    return _struct(
        PodUID=("PodUID", "string", _text),
        ContainerName=("ContainerName", "string", _text),
        ResourceName=("ResourceName", "string", _text),
        DeviceIDs=("DeviceIDs", type_, _device_ids),
        AllocResp=("AllocResp", "[]uint8", _bytes),
    )(value)


_device_data = _struct(
    PodDeviceEntries=("PodDeviceEntries", "[]checkpoint.PodDevicesEntry", _list(_device_entry, absent="[]")),
    RegisteredDevices=("RegisteredDevices", "map[string][]string", _map(_list(_text), absent="map[]")),
)


# The checkpoint of a kubelet's device manager: which container has which devices of device plugins.

Holding = tuple[str, str, str]
"""UID of the pod, name of the container, and resource."""


@dataclass(frozen=True, slots=True)
class DeviceCheckpoint:
    """What the checkpoint says."""

    resources: frozenset[str]  # the resources of device plugins that have registered
    allocated: Mapping[str, int]  # how many devices of each resource containers have
    holdings: frozenset[Holding]  # who has devices
    # whether devices are listed as by kubelets up to 1.19, and not by NUMA node; False if there are none
    flat: bool = False


@lru_cache(maxsize=4)
def read_devices(data: bytes | None) -> DeviceCheckpoint | None:
    """Return what a checkpoint says; ``None`` if there is none, or a kubelet would not accept it and begin anew."""
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
    sound = _is(document.get("checksum"), partial(device_checksum, content))
    return DeviceCheckpoint(resources, allocated, holdings, flat) if sound else None


def _count(listed: Any) -> int:
    """Count devices; kubelets from 1.20 on list them by NUMA node."""
    return sum(map(len, listed.values())) if isinstance(listed, Mapping) else len(listed or ())


# State files are JSON objects, whose field names a kubelet compares without regard to case.


def fields(data: bytes | None) -> Mapping[str, Any]:
    """Return the fields of a JSON object, with names in lower case; empty if there is none or it is damaged."""
    try:
        return read_fields(data or b"")
    except ValueError:
        return {}


def read_fields(data: bytes) -> Mapping[str, Any]:
    """Return the fields of a JSON object, with names in lower case.

    Raises:
        ValueError: it is no JSON object.
    """
    try:
        document = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - it is content, not a type
    return {name.lower(): value for name, value in document.items()}
