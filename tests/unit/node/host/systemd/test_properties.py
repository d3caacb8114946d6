"""Tests for parsing unit properties as systemctl prints them."""

from dataclasses import replace

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.environment_files import VARIABLE
from nodeupgrade.node.host.systemd.properties import (
    assignments_of,
    commands_of,
    environment_files_of,
    limit_of,
    moment_of,
    words_of,
)
from nodeupgrade.node.host.systemd.units import UnitCommand
from tests.builders.systemd_output import KUBEADM, shown_command


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("/usr/bin/containerd", ("/usr/bin/containerd",)),
        ("/usr/bin/containerd --config /etc/c.toml", ("/usr/bin/containerd", "--config", "/etc/c.toml")),
        ("/usr/bin/containerd $OPTIONS", ()),
        ("/usr/bin/containerd --name %n", ()),
        ('/usr/bin/containerd --root "/var/with space"', ()),
        ("/usr/bin/containerd --root ", ()),
        ("containerd --root /var/lib/c", ()),
        ("", ()),
    ],
)
def test_words_are_told_only_where_they_are_certain(line: str, words: tuple[str, ...]) -> None:
    command = UnitCommand(when="ExecStart", program="/usr/bin/containerd", line=line)

    assert words_of(command) == words
    assert words_of(replace(command, may_fail=True)) == ()


def test_commands_are_told_with_all_their_words() -> None:
    first = shown_command("/sbin/modprobe overlay", "/sbin/modprobe", may_fail=True)
    second = shown_command("/bin/sh -c a; b\nc", "/bin/sh")

    assert [(c.program, c.line, c.may_fail) for c in commands_of("ExecStartPre", f"{first}\n{second}")] == [
        ("/sbin/modprobe", "/sbin/modprobe overlay", True),
        ("/bin/sh", "/bin/sh -c a; b\nc", False),
    ]
    assert commands_of("ExecStartPre", "") == ()
    with pytest.raises(StepFailed, match="cannot read what systemd shows as ExecStartPre"):
        commands_of("ExecStartPre", "{ something else }")


def test_a_command_of_which_the_end_is_missing_is_not_left_out() -> None:
    first = shown_command("/bin/true", "/bin/true")
    with pytest.raises(StepFailed, match="cannot read what systemd shows as ExecStartPre"):
        commands_of("ExecStartPre", f"{first}\n{{ path=/bin/sh ; argv[]=/bin/sh -c a")


def test_what_a_start_depends_on_is_read_as_systemd_shows_it() -> None:
    assert assignments_of('A=1 "B=--x=2 --y" C=') == ("A=1", "B=--x=2 --y", "C=")
    assert not any("=" in each for each in assignments_of('"A=1'))
    files = "/etc/default/kubelet (ignore_errors=yes)\n/etc/is needed (ignore_errors=no)"
    assert environment_files_of(files) == (("/etc/default/kubelet", False), ("/etc/is needed", True))
    assert environment_files_of("") == ()
    assert moment_of("Thu 1970-01-01 00:01:00 UTC") == 60.0
    assert moment_of("Thu 1970-01-01 00:01:00.250000 UTC") == 60.25
    assert (limit_of("30s"), limit_of("0"), limit_of("infinity"), limit_of("")) == ("30s", "", "", "")
    assert moment_of("Thu 1970-01-01 00:01:00 CET") is moment_of("") is moment_of("n/a") is None


@pytest.mark.parametrize(
    ("shown", "assignments"),
    [
        (f'"{KUBEADM}" B=1', (KUBEADM, "B=1")),
        (KUBEADM.replace(" ", r"\x20") + " B=1", (KUBEADM, "B=1")),
        (r'A=back\x5cslash B=quo"te" C=', (r"A=back\slash", 'B=quo"te"', "C=")),
        (r"A=\xc3\xa4 B=don't", ("A=ä", "B=don't")),
        (r'"A=\\x20" B=1', (r"A=\x20", "B=1")),
        ("$'A=1\\n2' B=1", ("A=1\\n2", "B=1")),
        ("", ()),
    ],
)
def test_assignments_are_split_as_each_version_shows_them(shown: str, assignments: tuple[str, ...]) -> None:
    """Quoted from 246 on, escaped before 234."""
    assert assignments_of(shown) == assignments


@pytest.mark.parametrize("shown", ["[unprintable] B=1", f"{KUBEADM} B=1"], ids=["234 to 245", "219 of Red Hat"])
def test_an_assignment_that_is_not_shown_whole_is_none(shown: str) -> None:
    assert not all(VARIABLE.fullmatch(each.partition("=")[0]) for each in assignments_of(shown))
