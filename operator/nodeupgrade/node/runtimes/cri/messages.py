"""Read messages of runtimes and kubelets, whose texts need not be UTF-8.

Whoever creates a pod in protobuf may write any bytes into its annotations, environment and commands. The API server
keeps them, kubelets up to 1.33 pass them on, and so do runtimes; Python reads no message that has one. Who
reads JSON, as an agent does, sees U+FFFD in place of each such byte, and so does who reads here.
"""

from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

M = TypeVar("M", bound=Message)


def read(kind: type[M], data: bytes) -> M:
    """Return a message.

    Raises:
        DecodeError: it is none of this kind.
    """
    try:
        return kind.FromString(data)
    except DecodeError:
        message = _unchecked(kind.DESCRIPTOR).FromString(data)
        _replace(message)
        return kind.FromString(message.SerializeToString())


@cache
def _unchecked(kind: Descriptor) -> type[Message]:
    """Return the same kind as proto2 has it, where texts are not checked."""
    file = FileDescriptorProto()
    kind.file.CopyToProto(file)
    file.syntax = "proto2"
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(kind.full_name))


def _replace(message: Message) -> None:
    for field, value in message.ListFields():
        entry = field.message_type if field.message_type and field.message_type.GetOptions().map_entry else None
        if entry is not None:
            _replace_in_map(value, entry.fields_by_name["value"])
        elif field.type == FieldDescriptor.TYPE_STRING:
            if field.is_repeated:
                value[:] = [_text(each) for each in value]
            else:
                setattr(message, field.name, _text(value))
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in value if field.is_repeated else (value,):
                _replace(each)


def _replace_in_map(entries: Any, kind: FieldDescriptor) -> None:
    if kind.type == FieldDescriptor.TYPE_MESSAGE:
        for each in entries.values():
            _replace(each)
    elif kind.type == FieldDescriptor.TYPE_STRING:
        texts = {_text(key): _text(value) for key, value in entries.items()}
        entries.clear()
        entries.update(texts)


def _text(value: str | bytes) -> str:
    """Return a text as Go writes it into JSON: with U+FFFD in place of each byte that is none of UTF-8."""
    if isinstance(value, str):
        return value
    decoded = value.decode("utf-8", errors="surrogateescape")
    return "".join("\ufffd" if "\udc80" <= each <= "\udcff" else each for each in decoded)
