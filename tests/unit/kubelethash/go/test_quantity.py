"""Quantities against values that Go prints, and their round trip."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelethash.errors import Misfit
from nodeupgrade.kubelethash.go.quantity import Format, parse

SI, BINARY, EXPONENT = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT


@pytest.mark.parametrize(
    ("text", "value", "scale", "cached", "format_"),
    [
        ("0", 0, 0, "0", SI),
        ("1", 1, 0, "1", SI),
        ("100m", 100, -3, "100m", SI),
        ("2500M", 2500, 6, "2500M", SI),
        ("1000m", 1000, -3, "", SI),
        ("1e3", 1, 3, "1e3", EXPONENT),
        ("2e9", 2, 9, "2e9", EXPONENT),
        ("100Mi", 100 << 20, 0, "100Mi", BINARY),
        ("64Mi", 64 << 20, 0, "", BINARY),
        ("1Gi", 1 << 30, 0, "1Gi", BINARY),
        ("8Gi", 8 << 30, 0, "", BINARY),
        ("0.5", 5, -1, "", SI),
        ("1.500", 1500, -3, "1.500", SI),
        ("-5", -5, 0, "-5", SI),
        ("+5", 5, 0, "+5", SI),
        ("00", 0, 0, "", SI),
        ("123456789012345678", 123456789012345678, 0, "123456789012345678", SI),
    ],
)
def test_small_amounts_keep_what_go_keeps(text: str, value: int, scale: int, cached: str, format_: Format) -> None:
    quantity = parse(text)
    assert quantity.unscaled is None
    assert (quantity.value, quantity.scale, quantity.cached, quantity.format) == (value, scale, cached, format_)


@pytest.mark.parametrize(
    ("text", "unscaled", "scale", "format_"),
    [
        ("1Pi", (1 << 50) * 10**9, 9, BINARY),
        ("100Ti", (100 << 40) * 10**9, 9, BINARY),
        ("1.5Gi", 1536 * (1 << 20) * 10**9, 9, BINARY),
        ("0.5Ki", 512 * 10**9, 9, BINARY),
        ("0.0001Ki", 102400000, 9, SI),
        ("1234567890123456789", 1234567890123456789 * 10**9, 9, SI),
        ("0.1n", 1, 9, SI),
        ("-0.1n", -1, 9, SI),
        ("16Ei", 2**63 - 1, 0, BINARY),
    ],
)
def test_other_amounts_become_big_decimals(text: str, unscaled: int, scale: int, format_: Format) -> None:
    quantity = parse(text)
    assert (quantity.unscaled, quantity.unscaled_scale, quantity.format) == (unscaled, scale, format_)
    assert quantity.cached == ""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1.5Gi", "1536Mi"),
        ("64Mi", "64Mi"),
        ("1024Mi", "1Gi"),
        ("0.5Ki", "512"),
        ("1Pi", "1Pi"),
        ("0Mi", "0"),
        ("1000k", "1M"),
        ("10e2", "1e3"),
        ("1e0", "1e0"),
        ("0.1n", "1n"),
        ("-1536Mi", "-1536Mi"),
        ("100000", "100k"),
        ("8Ei", "9223372036854775807"),
    ],
)
def test_json_holds_the_kept_or_the_canonical_text(text: str, written: str) -> None:
    assert parse(text).text() == written


@pytest.mark.parametrize(
    "text", ["", "1 ", "1x", "1KI", "1kk", "1e", "1e5000", "--1", "1,5", "٣", "9" * 500, f"{'0' * 1600}x"]
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(Misfit):
        parse(text)


def test_a_row_of_zeros_takes_no_time() -> None:
    """Read in every possible way, these would take hours; the time limit of the tests tells."""
    assert parse("0" * 399 + "1").value == 1
    for text in ("0" * 400, "0" * 399 + "x", "0." + "0" * 397 + "y"):
        for _ in range(1000):
            try:
                parse.__wrapped__(text)
            except Misfit:
                continue


QUANTITIES = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**20).map(str),
    st.one_of(st.just(""), st.integers(0, 10**6).map(lambda number: f".{number}")),
    st.sampled_from([*"numkMGTP", "", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e7"]),
)


@given(QUANTITIES)
def test_what_go_writes_reads_back_as_the_same_amount_and_text(text: str) -> None:
    try:
        quantity = parse(text)
    except Misfit:
        return
    again = parse(quantity.canonical())
    assert again.amount() == quantity.amount()
    assert again.text() == again.canonical() == quantity.canonical()
