"""Protobuf by hand: what the tests ask of a runtime is encoded without the code under test."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias, Union

import grpc

Value: TypeAlias = Union[int, str, bytes, "Fields", "list[Value]"]
Fields: TypeAlias = Mapping[int, Value]


def encode(fields: Fields) -> bytes:
    """A message, given its values by field number."""
    return b"".join(_field(number, value) for number, value in fields.items())


def entries(mapping: Mapping[str, str]) -> list[Value]:
    """A ``map<string, string>``."""
    return [{1: key, 2: value} for key, value in mapping.items()]


def first_string(message: bytes) -> str:
    """The value of field 1 where it comes first and is shorter than 128 bytes."""
    assert message[0] == 0x0A
    assert message[1] < 128
    return message[2 : 2 + message[1]].decode()


def call(socket: Path, method: str, fields: Fields, *, timeout: float = 60) -> bytes:
    """Make one call in the namespace of Kubernetes."""
    with grpc.insecure_channel(f"unix:{socket}", options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
        send = channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)
        answer: bytes = send(encode(fields), timeout=timeout, metadata=(("containerd-namespace", "k8s.io"),))
        return answer


def _field(number: int, value: Value) -> bytes:
    match value:
        case list():
            return b"".join(_field(number, item) for item in value)
        case int():
            return _varint(number << 3) + _varint(value)
        case str():
            return _field(number, value.encode())
        case bytes():
            return _varint(number << 3 | 2) + _varint(len(value)) + value
        case _:
            return _field(number, encode(value))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
