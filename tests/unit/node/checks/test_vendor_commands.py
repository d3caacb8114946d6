"""Tests the known commands of distributions."""

import shutil
import subprocess

import pytest

from nodeupgrade.node.checks.vendor_commands import KNOWN


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("known", sorted(each for each in KNOWN if "c " in each.split("/")[2]))
def test_no_beginning_of_a_shell_command_is_one(known: str) -> None:
    words = known.split("c ", maxsplit=1)[1].split(" ")
    beginnings = [" ".join(words[:count]) for count in range(1, len(words) + 1)]

    accepted = [text for text in beginnings if subprocess.run(["bash", "-nc", text], check=False).returncode == 0]

    assert accepted == [beginnings[-1]]
