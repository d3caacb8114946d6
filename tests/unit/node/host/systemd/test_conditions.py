"""Tests which conditions of a unit do not hold, as systemd 252 was seen to start units that have them, or not."""

import os
from pathlib import Path

import pytest

from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.host.systemd import fence
from nodeupgrade.node.host.systemd.conditions import unmet_conditions
from tests.builders.sound import unit

FILE = "/etc/systemd/system/kubelet.service"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node with something of everything."""
    for name in ("full", "empty", "sub/d"):
        (tmp_path / name).mkdir(parents=True)
    for name, text in (("full/f", ""), ("void", ""), ("plain", "x"), ("tool", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "tool").chmod(0o755)
    for name, target in (("dangling", "/nowhere"), ("link", "/plain"), ("linkdir", "full")):
        (tmp_path / name).symlink_to(target)
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


def unmet(root: Path, *texts: str) -> list[str]:
    """What does not hold of a unit file and its drop-ins."""
    paths = [FILE, *(f"{FILE}.d/{number}.conf" for number in range(1, len(texts)))]
    for path, text in zip(paths, texts, strict=True):
        file = root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return [*unmet_conditions(HostFiles(root), unit("kubelet.service", fragment_path=FILE, drop_ins=tuple(paths[1:])))]


HOLD = """\
PathExists=/plain
PathExists=!/gone
PathExists=/link
PathExists=/fifo
PathExists=/plain/
PathExists=//plain
PathExists=| ! /gone
PathIsDirectory=/full
PathIsDirectory=/linkdir
PathIsDirectory=!/plain
DirectoryNotEmpty=/full
DirectoryNotEmpty=/sub
DirectoryNotEmpty=!/gone
DirectoryNotEmpty=!/plain
FileNotEmpty=/plain
FileNotEmpty=/link
FileIsExecutable=/tool
PathExists=!|/plain
PathExists=relative/gone
PathExists="/plain"
PathExists=/full/../gone
"""
"""systemd ignores the last four, which have no plain and absolute path."""
NOT_HELD = """\
PathExists=/gone
PathExists=!/plain
PathExists=/dangling
PathExists=/plain/gone
PathExists=|/gone
PathIsDirectory=/plain
PathIsDirectory=/gone
DirectoryNotEmpty=/empty
DirectoryNotEmpty=/plain
DirectoryNotEmpty=/gone
FileNotEmpty=/void
FileNotEmpty=/full
FileNotEmpty=/gone
FileIsExecutable=/plain
FileIsExecutable=/full
"""
NOT_TESTED = """\
PathExists=/%p-gone
PathExists=/plain /gone
PathExistsGlob=/gone*
PathIsMountPoint=/plain
Virtualization=!container
Architecture=none
KernelCommandLine=none
Memory=>1024T
FirstBoot=yes
"""
"""Counted as holding, whatever systemd says."""


@pytest.mark.parametrize("kind", ["Condition", "Assert"])
@pytest.mark.parametrize("line", [*HOLD.splitlines(), *NOT_TESTED.splitlines()])
def test_what_holds_or_is_not_tested_is_not_named(root: Path, kind: str, line: str) -> None:
    assert unmet(root, f"[Unit]\n{kind}{line}\n") == []


@pytest.mark.parametrize("kind", ["Condition", "Assert"])
@pytest.mark.parametrize("line", NOT_HELD.splitlines())
def test_what_does_not_hold_is_named(root: Path, kind: str, line: str) -> None:
    assert unmet(root, f"[Unit]\n{kind}{line}\n") == [f"{kind}{line}"]


def test_of_those_that_trigger_one_has_to_hold_and_all_others(root: Path) -> None:
    one, other, plain = "ConditionPathExists=|/gone", "ConditionFileNotEmpty=|!/plain", "ConditionPathExists=/void"

    assert unmet(root, f"[Unit]\n{one}\n{other}\n{plain}\n") == [f"{one} or {other}"]
    assert unmet(root, f"[Unit]\n{one}\nConditionKernelVersion=|>1\n") == []
    assert unmet(root, f"[Unit]\n{one}\nConditionPathExists=|/plain\nConditionPathExists=/gone\n") == [
        "ConditionPathExists=/gone"
    ]


@pytest.mark.parametrize(
    ("reset", "left"),
    [
        ("ConditionPathExists=", ["AssertPathExists=/gone"]),
        ("ConditionFileNotEmpty=", ["AssertPathExists=/gone"]),
        ("AssertPathIsDirectory=", ["ConditionPathExists=/gone"]),
    ],
)
def test_an_empty_assignment_takes_back_all_conditions_or_all_assertions(
    root: Path, reset: str, left: list[str]
) -> None:
    text = "[Unit]\nConditionPathExists=/gone\nAssertPathExists=/gone\n"

    assert unmet(root, text, f"[Unit]\n{reset}\n") == left
    assert len(unmet(root, f"[Unit]\n{reset}\n", text)) == 2


def test_a_line_may_go_on_and_other_sections_and_comments_say_nothing(root: Path) -> None:
    text = "[Unit]\n# ConditionPathExists=/a\nConditionPathExists = \\\n  /gone\n[X-Unit]\nConditionPathExists=/gone\n"

    assert unmet(root, text) == ["ConditionPathExists=/gone"]


def test_the_fence_of_a_run_is_none_of_the_units_own(root: Path) -> None:
    drop_in, flag = (root / str(each).lstrip("/") for each in (fence.drop_in("x.service"), fence.flag("x.service")))
    for path, text in ((drop_in, fence.drop_in_text("x.service")), (flag, "")):
        path.parent.mkdir(parents=True)
        path.write_text(text)

    assert [*unmet_conditions(HostFiles(root), unit("x.service", drop_ins=(str(fence.drop_in("x.service")),)))] == []


def test_a_path_that_cannot_be_followed_is_not_named(root: Path) -> None:
    (root / "loop").symlink_to("loop")

    assert unmet(root, "[Unit]\nConditionPathExists=/loop\n") == []


@pytest.mark.parametrize("continued", ["# see C:\\", " ; or \\"])
def test_a_comment_that_ends_with_a_backslash_hides_no_setting(root: Path, continued: str) -> None:
    gone = "ConditionPathExists=/nope"

    assert unmet(root, f"[Unit]\n{continued}\n{gone}\n") == [gone]
    assert unmet(root, f"[Unit]\n{gone}\n", f"[Unit]\n{continued}\nConditionPathExists=\n") == []
    assert unmet(root, f"[Unit]\nConditionPathExists= \\\n{continued}\n/nope\n") == [gone]
