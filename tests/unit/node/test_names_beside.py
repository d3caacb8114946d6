"""Tests for the names of files that a run puts beside another."""

import re
from pathlib import PurePosixPath

from nodeupgrade.node.names_beside import free_aside


def test_a_free_name_is_found_whatever_numbers_pods_have_taken() -> None:
    def is_taken(path: PurePosixPath) -> bool:
        return re.fullmatch(r"\.it\.nodeupgrade-aside\d*", path.name) is not None

    found = free_aside(PurePosixPath("/a/it"), is_taken)

    assert found.parent == PurePosixPath("/a")
    assert not is_taken(found)
