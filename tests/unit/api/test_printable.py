"""What is not seen as a character is shown as an escape."""

import sys
import unicodedata

import pytest

from nodeupgrade.api.printable import printable, stored


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("web-a-1", "web-a-1"),
        ("Zürich 東京 🙂 [red]", "Zürich 東京 🙂 [red]"),
        ("\x1b]0;x\x07\x1b[2J", "\\x1b]0;x\\x07\\x1b[2J"),
        ("a\r\n\tb\b\x7f", "a\\r\\n\\tb\\x08\\x7f"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("\u202egpj\u202c\u2066\u200e\u200f\u061c", "\\u202egpj\\u202c\\u2066\\u200e\\u200f\\u061c"),
        ("a\u200bb\u200d\ufeff\u00ad", "a\\u200bb\\u200d\\ufeff\\xad"),
        ("\u2028\u2029", "\\u2028\\u2029"),
        ("\udcff\ud800", "\\udcff\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_what_we_lay_out_is_kept() -> None:
    assert printable("one\ntwo\r", keep="\n") == "one\ntwo\\r"


def test_of_all_that_unicode_has_nothing_hidden_is_left() -> None:
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    every = (chr(number) for number in range(sys.maxunicode + 1))
    assert [letter for letter in every if unicodedata.category(letter) in hidden and letter in printable(letter)] == []


def test_what_is_stored_is_short_enough_with_its_escapes() -> None:
    text = stored("\x1b" * 100, 40)
    assert text.isprintable()
    assert len(text) <= 40
