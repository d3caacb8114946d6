"""Tests that text is read as the kernel, systemd and Go read it."""

from datetime import UTC, datetime

import pytest

from nodeupgrade.text import (
    integer,
    known_time,
    lines,
    number,
    one_line,
    parse_base64,
    parse_json,
    parse_nanoseconds,
    parse_pairs,
    parse_time,
    parse_toml,
    struct_fields,
    trimmed,
    words,
)
from tests.builders.hostile_text import DIGITS, NAME_SEPARATORS, NESTED


def test_a_line_ends_with_a_line_feed_and_nothing_else() -> None:
    assert (lines(""), lines("\n"), lines("a"), lines("a\n\nb\n")) == ([], [""], ["a"], ["a", "", "b"])
    for odd in NAME_SEPARATORS:
        assert lines(f"a{odd}b\nc") == [f"a{odd}b", "c"]


def test_words_are_between_blanks_tabs_and_ends_of_lines() -> None:
    assert words(" a\t b\r\nc ") == ["a", "b", "c"]
    assert (words(""), trimmed("\t a b\r\n"), one_line(" a\n\n b")) == ([], "a b", "a b")
    for odd in set(NAME_SEPARATORS) - {"\r"}:
        assert words(f"a{odd}b c") == [f"a{odd}b", "c"]
        assert trimmed(f" {odd}a{odd}\n") == f"{odd}a{odd}"


@pytest.mark.parametrize("text", DIGITS)
def test_a_number_has_digits_and_nothing_else(text: str) -> None:
    assert number(text) is None
    assert (number("0"), number("007"), number(str(2**64 - 1))) == (0, 7, 2**64 - 1)


@pytest.mark.parametrize("value", [True, 1.5, "1", None, [1], float("nan"), float("inf")])
def test_an_integer_is_no_other_value_of_json(value: object) -> None:
    assert (integer(-(2**70)), integer(10.0)) == (-(2**70), 10)
    with pytest.raises(ValueError, match="is not an integer"):
        integer(value)


@pytest.mark.parametrize("text", [*NESTED, *DIGITS[:4], "9" * 5000])
def test_what_is_too_deep_or_too_long_is_an_error_like_any_other(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library's own words
        parse_json(text)
    with pytest.raises(ValueError):  # noqa: PT011
        parse_toml(f"{text} = {text}".encode())


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e400", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b'"\xff"'])
def test_what_is_no_json_to_go(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several kinds
        parse_json(text)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"Name": "a", "NAME": "b", "name": null}', {"name": "b"}),
        ('{"li\u017ft": [1], "\u212aey": 1}', {"list": [1], "key": 1}),
        ('{"list": [1, 2], "LIST": [3]}', {"list": [3]}),
        ('{"list": [1], "list": null}', {"list": None}),
        ('{"map": {"a": {"x": 1}, "b": 1}, "Map": {"a": {"y": 2}}}', {"map": {"a": {"y": 2}, "b": 1}}),
        ('{"n": 1, "n": 2.5}', {"n": 2.5}),
        ("{}", {}),
    ],
)
def test_fields_as_go_puts_them_into_a_struct(text: str, fields: dict[str, object]) -> None:
    assert struct_fields(parse_pairs(text)) == fields


@pytest.mark.parametrize("text", ["[]", "null", "", "{", '{"a": NaN}', '{"a": 1, "A": "1"}', '{"a": true, "a": 1}'])
def test_what_no_struct_takes_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        struct_fields(parse_pairs(text))


def test_base64_as_go_decodes_it() -> None:
    assert parse_base64("aG\nk=\r\n") == b"hi"
    for text in ("aGk", "aGkh=", "aG k=", "-_8=", "é", 5):
        with pytest.raises(ValueError, match="not base64"):
            parse_base64(text)


def test_times_as_go_parses_them() -> None:
    assert parse_time("2026-01-02T3:04:05,5+24:00") == datetime(2026, 1, 1, 3, 4, 5, 500_000, tzinfo=UTC)
    for text in (
        "2026-01-02",
        "20260102T030405Z",
        "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:60Z",
        "2026-01-02t03:04:05z",
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - datetime's own, too
            parse_time(text)


def test_a_time_may_be_unknown() -> None:
    assert known_time("2026-01-02T03:04:05Z") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for text in ("", None, "0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "2026-01-02T03:04:05"):
        assert known_time(text) is None


def test_durations_as_go_parses_them() -> None:
    assert [parse_nanoseconds(text) for text in ("1h.5s", "-1.5ms", "1.9ns", "0")] == [
        3_600_500_000_000,
        -1_500_000,
        1,
        0,
    ]
    for text in ("", "1", "s", "1s2", "٣s", "2562048h", "1e3s"):
        with pytest.raises(ValueError, match="duration"):
            parse_nanoseconds(text)
