"""Which state files a kubelet reads when it starts, and why it could not read one: formats by version, and damage."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from nodeupgrade.kubelet import history
from nodeupgrade.kubelet.feature_gates import RESIZE_GATE
from nodeupgrade.kubelet.layout import (
    CLAIM_STATE,
    CPU_STATE,
    DEVICE_STATE,
    MEMORY_STATE,
    READ_AT_START,
    RESIZE_STATES,
    STATUS_STATE,
    KubeletLayout,
)
from nodeupgrade.kubelet.state_files.checksums import (
    KNOWN_OF_CPUS,
    KNOWN_OF_MEMORY,
    Document,
    claims_are_sound,
    cpu_formats,
    memory_is_sound,
    text_checksum,
)
from nodeupgrade.kubelet.state_files.device_checkpoint import read_devices, unread_format
from nodeupgrade.kubelet.state_files.fields import fields, read_fields
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.kubelethash.changes import MinorChange

BREAKS: Mapping[str, tuple[MinorChange, ...]] = {
    CPU_STATE: (history.CPU_STATE_V2,),
    DEVICE_STATE: (history.DEVICE_CHECKPOINT_V2,),
    CLAIM_STATE: (history.DRA_STATE_HANDLES, history.DRA_STATE_EXTENDED, history.DRA_STATE_CHANGED),
    STATUS_STATE: (history.STATUS_STATE_CHANGED,),
}
"""The changes of format that some kubelet cannot read, by the name of the file."""


def read_by(version: KubeletVersion, layout: KubeletLayout) -> tuple[str, ...]:
    """Return the names of the state files that a kubelet reads when it starts."""
    by_default = history.POD_STATE.applies_to(version)
    resizes = layout.gates.get(RESIZE_GATE, by_default or layout.resizes_in_place)
    claims = layout.gates.get("DynamicResourceAllocation", history.DRA_BY_DEFAULT.applies_to(version))
    unread = {
        *(() if history.MEMORY_MANAGER.applies_to(version) else (MEMORY_STATE,)),
        *(() if claims else (CLAIM_STATE,)),
        *(() if resizes and history.STATUS_STATE.applies_to(version) else (STATUS_STATE,)),
        *(() if resizes and by_default else RESIZE_STATES),
    }
    return tuple(name for name in READ_AT_START if name not in unread)


def breaks(name: str, reader: KubeletVersion, writer: KubeletVersion) -> bool:
    """Report whether ``writer`` writes a state file in a format that ``reader`` may be unable to read."""
    return any(change.applies_to(reader) is not change.applies_to(writer) for change in BREAKS.get(name, ()))


def unreadable(name: str, data: bytes, reader: KubeletVersion, writer: KubeletVersion) -> str | None:
    """Return why a kubelet of the version ``reader`` cannot use a state file as it is; ``None`` if it can.

    A field that is not known here is taken for one of a newer kubelet's, which the reader would not know either.

    Args:
        name: the path below the kubelet's root directory.
        data: the content.
        reader: the version of the kubelet that starts.
        writer: the version of the kubelet that wrote it.
    """
    return _PROBLEMS[name](data, reader, writer)


REMEDY = "drain the node, remove the file, and restart the kubelet"
_DAMAGED = f"it is damaged; {REMEDY}"
_CHECKSUM_WRONG = f"it is damaged (its checksum is wrong); {REMEDY}"


def _of_cpus(document: Document, reader: KubeletVersion, writer: KubeletVersion) -> str | None:
    formats, second, dropped = cpu_formats(document), history.CPU_STATE_V2, history.CPU_STATE_V1_UNREAD
    if formats is None:
        return _has_later_fields(document, reader, writer)
    if not formats:
        return _CHECKSUM_WRONG
    if not second.applies_to(reader) and 1 not in formats:
        return f"it has the format of {second.since}, which older kubelets refuse ({second.reference})"
    if dropped.applies_to(reader) and 2 not in formats:
        return (
            f"it has the format from before {second.since}, which kubelets from {dropped.since} on refuse "
            f"({dropped.reference}); remove the file and restart the kubelet, which recreates it, while no pod has "
            "CPUs of its own"
        )
    return None


def _of_memory(document: Document, reader: KubeletVersion, writer: KubeletVersion) -> str | None:
    if document.keys() - KNOWN_OF_MEMORY:
        return _has_later_fields(document, reader, writer)
    return None if memory_is_sound(document) else _CHECKSUM_WRONG


def _has_later_fields(document: Document, reader: KubeletVersion, writer: KubeletVersion) -> str | None:
    """Return why a kubelet refuses a manager's state with fields that only its writer may know."""
    if (reader.major, reader.minor) >= (writer.major, writer.minor):
        return None
    later = sorted(document.keys() - KNOWN_OF_CPUS - KNOWN_OF_MEMORY)
    return f"it has fields of kubelet {writer} ({', '.join(later)}); {REMEDY}"


_Manager: TypeAlias = Callable[[Document, KubeletVersion, KubeletVersion], str | None]


def _of_manager(of_format: _Manager, data: bytes, reader: KubeletVersion, writer: KubeletVersion) -> str | None:
    try:
        document = read_fields(data)
    except ValueError as error:
        return f"it is damaged ({error}); {REMEDY}"
    if history.STATE_AS_TEXT.applies_to(reader) and isinstance(document.get("data"), str):
        return None if text_checksum(document["data"]) == document.get("datachecksum") else _CHECKSUM_WRONG
    return of_format(document, reader, writer)


def _of_devices(data: bytes, reader: KubeletVersion, _writer: KubeletVersion) -> str | None:
    checkpoint = read_devices(data)
    if checkpoint is None:
        return _DAMAGED
    change = unread_format(checkpoint, reader)
    return None if change is None else f"it has a format that kubelet {reader} does not read ({change})"


def _of_claims(data: bytes, reader: KubeletVersion, writer: KubeletVersion) -> str | None:
    document, as_text = fields(data), history.DRA_STATE_CHANGED
    if not claims_are_sound(document):
        return "it is damaged; drain the node of pods with claims, and remove the file"
    if isinstance(document.get("data"), str) is not as_text.applies_to(reader):
        return _changed_with_claims(as_text)
    handles, extended = history.DRA_STATE_HANDLES, history.DRA_STATE_EXTENDED
    if as_text.applies_to(reader) or not document.get("entries"):
        return None
    if extended.applies_to(reader) is not extended.applies_to(writer):
        return _changed_with_claims(extended)
    return _changed_with_claims(handles) if handles.begins_between(reader, writer) else None


def _changed_with_claims(change: MinorChange) -> str:
    return (
        f"its format changed in {change.since} ({change.reference}); drain the node of pods with claims, and "
        "remove the file while the kubelet is stopped"
    )


def _of_pods(data: bytes, _reader: KubeletVersion, _writer: KubeletVersion) -> str | None:
    """Return why a kubelet cannot read a state file that has a JSON object as text, and its checksum."""
    document = fields(data)
    text = document.get("data")
    readable = isinstance(text, str) and bool(fields(text.encode(errors="replace")) or text == "{}")
    return None if readable and text_checksum(str(text)) == document.get("checksum") else _DAMAGED


def _of_statuses(data: bytes, reader: KubeletVersion, writer: KubeletVersion) -> str | None:
    """Return why a kubelet up to 1.32 cannot read the state of resized pods.

    The checksum of its first format covers how Go keeps amounts in memory, which no file shows.
    """
    changed, document = history.STATUS_STATE_CHANGED, fields(data)
    if "checksum" not in document:
        return _DAMAGED
    if ("data" in document) != changed.applies_to(reader):
        return f"its format changed in {changed.since} ({changed.reference}); remove it while the kubelet is stopped"
    return _of_pods(data, reader, writer) if "data" in document else None


_PROBLEMS: Mapping[str, Callable[[bytes, KubeletVersion, KubeletVersion], str | None]] = {
    CPU_STATE: partial(_of_manager, _of_cpus),
    MEMORY_STATE: partial(_of_manager, _of_memory),
    DEVICE_STATE: _of_devices,
    CLAIM_STATE: _of_claims,
    STATUS_STATE: _of_statuses,
    **dict.fromkeys(RESIZE_STATES, _of_pods),
}
