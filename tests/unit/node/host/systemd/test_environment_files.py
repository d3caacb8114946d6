"""Tests that environment files are read as systemd reads them."""

import pytest

from nodeupgrade.node.host.systemd.environment_files import parse_assignments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=--v=2", "--v=2"),
        (" A = --v=2  --x \r\n", "--v=2  --x"),
        ("A=", ""),
        ("A='a b'\"c d\"", "a bc d"),
        ("A='a' b", "ab"),
        ('A="a\\"b\\\\\\$"', 'a"b\\$'),
        ('A="\\\n--v=2 \\\n--x"', "--v=2 --x"),
        ("A=a\\\n  b", "a  b"),
        ("A=a\\ \\n  ", "a n"),
        ("A=--a='b c' --d=\"e\"", "--a='b c' --d=\"e\""),
        ("# A=0\n;A=0\nA=a # b\nB", "a # b"),
        ("A=b\nA=c", "c"),
        # what systemd reads in one way or another, depending on its version, or with a warning
        ("A='a\\n'", None),
        ('A="a\\n"', None),
        ("A='a", None),
        ("# a\\\nA=b", None),
        ("A=b\0", None),
        ("A=\udcff", None),
    ],
)
def test_an_environment_file_as_systemd_reads_it(text: str, value: str | None) -> None:
    read = parse_assignments(text.encode(errors="surrogateescape"))

    assert (None if read is None else read["A"]) == value
