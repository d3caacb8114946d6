"""Tests for parsing the containerd command line."""

import pytest

from nodeupgrade.node.runtimes.containerd.command_line import parse_command_line
from tests.builders.containerd_program import PROGRAM


@pytest.mark.parametrize(
    ("words", "config", "others"),
    [
        ((), "/etc/containerd/config.toml", ()),
        (("--config", "/etc/c.toml"), "/etc/c.toml", ()),
        (("-c=/etc/c.toml", "-l", "debug"), "/etc/c.toml", ("--log-level", "debug")),
        (("--root=/data", "-config", "/etc/c.toml"), "/etc/c.toml", ("--root", "/data")),
    ],
)
def test_a_known_start_is_understood(words: tuple[str, ...], config: str, others: tuple[str, ...]) -> None:
    start = parse_command_line((PROGRAM, *words))

    assert start is not None
    assert (start.config, start.others) == (config, others)
    assert start.words("/run/x") == (PROGRAM, "--config", "/run/x", *others)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("/usr/bin/dockerd",),
        ("/usr/bin/env", "containerd"),
        (PROGRAM, "--config"),
        (PROGRAM, "--service-name", "x"),
        (PROGRAM, "config", "dump"),
    ],
)
def test_whatever_is_unknown_is_left_alone(words: tuple[str, ...]) -> None:
    assert parse_command_line(words) is None
