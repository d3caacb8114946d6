"""What is made of the way a unit starts containerd, and of its configuration: which nodes give shims more time.

None gives containerd more than ten seconds to stop: it would wait for a client that says nothing.
"""

import tomllib
from dataclasses import replace

import pytest

from nodeupgrade.node.runtimes.containerd.command_line import ContainerdStart
from nodeupgrade.node.runtimes.containerd.restart_tuning import (
    SETTING,
    candidates,
    find_tuning,
    limit_in,
    only_raises,
    raise_limit,
)
from tests.builders.containerd_program import CONFIG, PROGRAM, FakeProgram, unit

DUMP = {"version": 2, "imports": [], "root": "/var/lib/containerd", "timeouts": {SETTING: "5s", "other": "2s"}}
RAISED = {**DUMP, "imports": ["/etc/containerd/config.toml"], "timeouts": {SETTING: "20s", "other": "2s"}}


def test_the_own_configuration_is_imported_and_nothing_else_said() -> None:
    (config,) = candidates(
        ContainerdStart(program=PROGRAM, config="/etc/c.toml", named=True, others=()), b"version = 3\n"
    )

    assert tomllib.loads(config.decode()) == {"version": 3, "imports": ["/etc/c.toml"], "timeouts": {SETTING: "20s"}}


def test_without_a_configuration_there_is_nothing_to_import() -> None:
    start = ContainerdStart(program=PROGRAM, config="/etc/c.toml", named=False, others=())
    found = [tomllib.loads(config.decode()) for config in candidates(start, None)]

    assert [each.get("version") for each in found] == [None, 2, 3]
    assert all("imports" not in each for each in found)


def test_nothing_but_the_limit_may_differ() -> None:
    assert limit_in(DUMP) == "5s"
    assert only_raises(DUMP, RAISED)
    assert not only_raises(DUMP, DUMP)
    assert not only_raises(DUMP, {**RAISED, "root": "/elsewhere"})
    assert not only_raises(DUMP, {**RAISED, "timeouts": {SETTING: "20s", "other": "3s"}})
    assert not only_raises(DUMP, {**RAISED, "plugins": {}})


def test_the_drop_in_replaces_the_command() -> None:
    tuning = raise_limit(
        ContainerdStart(program=PROGRAM, config="/etc/c.toml", named=True, others=("--log-level", "50%")), b"x"
    )

    config, drop_in = tuning.files
    assert (config.path, config.content) == ("/run/nodeupgrade-containerd.toml", b"x")
    assert drop_in.path == tuning.override == "/run/systemd/system/containerd.service.d/zz-nodeupgrade-shims.conf"
    lines = drop_in.content.decode().splitlines()
    assert lines[1:4] == ["[Service]", "TimeoutStopSec=10s", "ExecStart="]
    assert lines[4] == f'ExecStart={PROGRAM} --config /run/nodeupgrade-containerd.toml --log-level "50%%"'


@pytest.mark.parametrize(
    ("disk", "command"),
    [
        ({}, (PROGRAM,)),
        ({CONFIG: b"version = 2\n"}, (PROGRAM, "--log-level", "info")),
        ({"/opt/c.toml": b"version = 2\n"}, (PROGRAM, "-c", "/opt/c.toml")),
    ],
)
def test_a_start_that_is_understood_is_given_more_time(disk: dict[str, bytes], command: tuple[str, ...]) -> None:
    program, before = FakeProgram(disk), dict(disk)

    found = find_tuning(program.files, program, unit(*command))

    assert found.files, found.why
    assert disk == before, "looking touches nothing"


@pytest.mark.parametrize(
    ("command", "own", "mute", "why"),
    [
        ((), b"", False, "no command"),
        (("/usr/bin/env", "containerd"), b"", False, "an unknown command line"),
        ((PROGRAM,), b"version = 2\n", True, "does not show its configuration"),
        ((PROGRAM,), b"version = = 2\n", False, "Invalid value"),
        ((PROGRAM,), b"version = 3\n", False, "cannot be imported without changing anything else"),
    ],
)
def test_whatever_speaks_against_it_is_said(command: tuple[str, ...], own: bytes, mute: bool, why: str) -> None:
    """The last one is of a version that the program does not show for its own configuration."""
    program = FakeProgram({CONFIG: own})
    program.mute = mute

    found = find_tuning(program.files, program, unit(*command))

    [drop_in] = found.files
    assert drop_in.content.decode().splitlines()[1:] == ["[Service]", "TimeoutStopSec=10s"], "it need not wait"
    assert why in found.why


def test_a_unit_of_another_name_is_left_as_it_is() -> None:
    program = FakeProgram()

    found = find_tuning(program.files, program, replace(unit(PROGRAM), name="my-containerd.service"))

    assert (found.files, "it runs as my-containerd.service" in found.why) == ((), True)
