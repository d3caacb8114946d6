"""Symbolic links that tell whether somebody has followed them, since they may lead to a server that does not answer."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


def watched_link(path: Path, second_name: Path) -> Callable[[], bool]:
    """Make a link, and return what reports whether it was followed since, even if it is gone from its path by now.

    The kernel notes when it last followed a link, and under a second name that can be read.
    """
    path.symlink_to("nowhere")
    os.link(path, second_name, follow_symlinks=False)

    def was_followed() -> bool:
        return second_name.lstat().st_atime_ns != 0

    os.utime(path, ns=(0, 0), follow_symlinks=False)
    path.exists()
    if not was_followed():
        pytest.skip("the filesystem of the temporary directory keeps no times of access")
    os.utime(path, ns=(0, 0), follow_symlinks=False)
    return was_followed
