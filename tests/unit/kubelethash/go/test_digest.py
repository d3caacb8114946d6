from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelethash.go.digest import fnv1a, fnv1a_of_printed_bytes, stored_form


def test_fnv1a_gives_the_values_of_its_authors() -> None:
    assert [fnv1a(data) for data in (b"", b"a", b"foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]


@given(st.binary(max_size=200))
def test_printed_bytes_hash_like_their_text(data: bytes) -> None:
    text = "([]uint8)[" + " ".join(str(byte) for byte in data) + "]"
    assert fnv1a_of_printed_bytes(data) == fnv1a(text.encode())


def test_the_stored_form_is_not_padded() -> None:
    assert stored_form(0x0311670A) == "311670a"
