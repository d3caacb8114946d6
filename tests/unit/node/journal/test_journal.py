from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.errors import Inconsistent
from nodeupgrade.node.journal.journal import Journal, Mark, Record, parse, render

PAYLOAD = st.none() | st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=9) | st.integers(), max_size=3)
RECORD = st.builds(
    Record,
    seq=st.just(0),
    mark=st.sampled_from(Mark),
    step=st.none() | st.sampled_from(Step),
    boot=st.text(max_size=9).map(BootIdentity),
    at=st.just("2026-01-01T00:00:00.000+00:00"),
    monotonic=st.floats(min_value=0, max_value=1e9),
    payload=PAYLOAD,
    error=st.none() | st.text(max_size=20),
    reason=st.none() | st.text(max_size=9),
)


def numbered(records: list[Record]) -> tuple[Record, ...]:
    return tuple(replace(record, seq=seq) for seq, record in enumerate(records, 1))


JOURNAL = st.lists(RECORD, max_size=5).map(numbered)
THREE = numbered(
    [
        Record(seq=0, mark=mark, step=Step.SWAP_BINARY, boot=BootIdentity("b"), at="t", monotonic=1.0)
        for mark in (Mark.DOING, Mark.DONE, Mark.UNDOING)
    ]
)


@given(JOURNAL)
def test_written_and_read(records: tuple[Record, ...]) -> None:
    data = b"".join(map(render, records))

    assert parse(data) == (Journal(records), len(data))


def test_a_tail_torn_at_any_byte_is_not_counted() -> None:
    whole = b"".join(map(render, THREE[:2]))
    last = render(THREE[2])

    for kept in range(len(last)):
        assert parse(whole + last[:kept]) == (Journal(THREE[:2]), len(whole)), kept


def test_a_last_line_of_the_right_length_but_damaged_is_not_counted() -> None:
    """A file system may have made room for the line without having written all of it."""
    whole = b"".join(map(render, THREE[:2]))

    assert parse(whole + b"\0" * (len(render(THREE[2])) - 1) + b"\n") == (Journal(THREE[:2]), len(whole))


def test_any_damaged_byte_before_the_last_line_is_noticed() -> None:
    data = b"".join(map(render, THREE))
    end_of_second = len(data) - len(render(THREE[2])) - 1
    for position in range(end_of_second):
        damaged = bytearray(data)
        damaged[position] ^= 0x01
        with pytest.raises(Inconsistent, match=r"damaged|missing"):
            parse(bytes(damaged))


def test_a_missing_record_is_noticed() -> None:
    with pytest.raises(Inconsistent, match="record 2 is missing; found number 3"):
        parse(render(THREE[0]) + render(THREE[2]))


def test_a_record_of_another_schema_is_refused() -> None:
    with pytest.raises(Inconsistent, match="schema 2, this program knows 1: finish the run with the version"):
        parse(render(replace(THREE[0], schema=2)) + render(THREE[1]))


def test_the_payload_is_the_one_from_before_any_effect() -> None:
    """A step announced again after an interruption sees a world that it has changed already."""
    first = replace(THREE[0], payload={"hash": "old"})
    again = replace(THREE[0], seq=2, payload={"hash": "new"})

    assert Journal((first, again)).payload(Step.SWAP_BINARY) == {"hash": "old"}
