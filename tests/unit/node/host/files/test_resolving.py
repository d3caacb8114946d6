"""Tests for resolving symbolic links below the root directory of a node."""

import os
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from nodeupgrade.node.host.files.resolving import resolve
from nodeupgrade.node.host.files.system_calls import Disk


@pytest.mark.parametrize(
    ("link", "target", "reached"),
    [
        ("/link", "/etc/file", "/etc/file"),
        ("/link", "etc/file", "/etc/file"),
        ("/link", "../../../../etc/file", "/etc/file"),
        ("/link", "/../secret", "/secret"),
        ("/link", "/nowhere", "/nowhere"),
    ],
)
def test_links_are_followed_as_the_node_would(root: Path, link: str, target: str, reached: str) -> None:
    (root / link[1:]).symlink_to(target)
    assert resolve(root, PurePosixPath(link), follow_last=True) == root / reached[1:]
    assert resolve(root, PurePosixPath(link), follow_last=False) == root / link[1:]


def test_below_what_does_not_exist_nothing_is_looked_at_and_beside_it_links_count(root: Path) -> None:
    (root / "there").mkdir()
    (root / "here").symlink_to("/there")
    looked = list[Path]()

    class Watched:
        readlink = staticmethod(os.readlink)

        @staticmethod
        def lstat(path: Path) -> os.stat_result:
            looked.append(path)
            return os.lstat(path)

    def resolved(path: str) -> Path:
        return resolve(root, PurePosixPath(path), follow_last=True, disk=cast("Disk", Watched()))

    assert resolved("/none/a/b") == root / "none/a/b"
    assert looked == [root / "none"]
    assert resolved("/none/../here/file") == root / "there/file"
    assert resolved("/../../here") == root / "there"
