import pytest
from google.protobuf import struct_pb2, type_pb2

from e2e.lab.oracle.protobuf_wire import Message, bool_field, string_field


def test_it_reads_what_protobuf_writes() -> None:
    written = type_pb2.Field(name="größe", number=300, packed=True, oneof_index=-7)
    written.options.add(name="first")
    written.options.add(name="second")
    read = Message.parse(written.SerializeToString())
    assert (read.text(4), read.number(3), read.number(8), read.number(7)) == ("größe", 300, 1, -7)
    assert [option.text(1) for option in read.messages(9)] == ["first", "second"]
    assert (read.text(6), read.number(2000), read.messages(77)) == ("", 0, [])


def test_it_reads_maps_and_steps_over_fixed_width_fields() -> None:
    written = struct_pb2.Struct()
    written.update({"number": 1.5, "text": "x" * 300})
    entries = {entry.text(1): entry.message(2) for entry in Message.parse(written.SerializeToString()).messages(1)}
    assert entries["text"].text(3) == "x" * 300
    assert set(entries) == {"number", "text"}


def test_it_writes_what_protobuf_reads() -> None:
    read = type_pb2.Field.FromString(string_field(4, "a" * 200) + bool_field(8))
    assert (read.name, read.packed) == ("a" * 200, True)


def test_an_unknown_wire_type_is_an_error() -> None:
    with pytest.raises(ValueError, match="wire type 3"):
        Message.parse(bytes([1 << 3 | 3]))
