"""Decode protobuf messages by field number: enough to query a runtime without generated code."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """The fields of one message, undecoded."""

    fields: dict[int, list[int | bytes]]

    @classmethod
    def parse(cls, data: bytes) -> "Message":
        """Split ``data`` into fields."""
        found: dict[int, list[int | bytes]] = {}
        for number, value in _fields(data):
            found.setdefault(number, []).append(value)
        return cls(found)

    def number(self, field: int) -> int:
        """The last value of an integer field, 0 if unset; for non-negative values and 64-bit negatives."""
        value = self.fields.get(field, [0])[-1]
        assert isinstance(value, int)
        return value - (1 << 64) if value >> 63 else value

    def data(self, field: int) -> bytes:
        """The last value of a bytes field, empty if unset."""
        value = self.fields.get(field, [b""])[-1]
        assert isinstance(value, bytes)
        return value

    def text(self, field: int) -> str:
        """The last value of a string field, empty if unset."""
        return self.data(field).decode(errors="replace")

    def message(self, field: int) -> "Message":
        """A nested message, empty if unset."""
        return Message.parse(self.data(field))

    def messages(self, field: int) -> "list[Message]":
        """All values of a repeated message field."""
        return [Message.parse(value) for value in self.fields.get(field, []) if isinstance(value, bytes)]

    def texts(self, field: int) -> dict[str, str]:
        """A ``map<string, string>``."""
        return {entry.text(1): entry.text(2) for entry in self.messages(field)}


def string_field(field: int, value: str) -> bytes:
    """Encode one string field."""
    return message_field(field, value.encode())


def message_field(field: int, data: bytes) -> bytes:
    """Encode one field that is an encoded message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def bool_field(field: int) -> bytes:
    """Encode a boolean field that is true."""
    return _varint(field << 3) + b"\x01"


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        match key & 7:
            case 0:
                value, at = _read_varint(data, at)
                yield key >> 3, value
            case 1 | 5 as kind:
                size = 8 if kind == 1 else 4
                yield key >> 3, int.from_bytes(data[at : at + size], "little")
                at += size
            case 2:
                size, at = _read_varint(data, at)
                yield key >> 3, data[at : at + size]
                at += size
            case kind:
                raise ValueError(f"cannot read a protobuf field of wire type {kind}")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
