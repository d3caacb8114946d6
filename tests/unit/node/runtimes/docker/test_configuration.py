"""Tests for reading the dockerd configuration from its command line and daemon.json."""

import pytest

from nodeupgrade.node.runtimes.docker.configuration import (
    DockerdConfiguration,
    UnusableConfiguration,
    config_file,
    is_same_start,
    read_configuration,
)

PLAIN = ("/usr/sbin/dockerd", "-H", "fd://", "--containerd=/run/containerd/containerd.sock")
DEFAULT = DockerdConfiguration(
    root="/var/lib/docker", exec_root="/var/run/docker", hosts=("unix:///var/run/docker.sock",), live_restore=False
)


@pytest.mark.parametrize(
    ("words", "content", "expected"),
    [
        ("", None, DEFAULT),
        ("", b"", DEFAULT),
        ("-H fd:// --data-root /a", b"{}", ("/a", "/var/run/docker", ("fd://",), False)),
        ("--host=fd:// -H unix:///x -g /old", None, ("/old", "/var/run/docker", ("fd://", "unix:///x"), False)),
        ("--live-restore", None, ("/var/lib/docker", "/var/run/docker", DEFAULT.hosts, True)),
        ("--live-restore=true", None, ("/var/lib/docker", "/var/run/docker", DEFAULT.hosts, True)),
        ("--live-restore=false --debug", None, ("/var/lib/docker", "/var/run/docker", DEFAULT.hosts, False)),
        (
            "--log-level info",
            b'{"live-restore": true, "data-root": "/d", "exec-root": "/e", "hosts": ["tcp://x", "fd://"]}',
            ("/d", "/e", ("tcp://x", "fd://"), True),
        ),
        ("", b'{"hosts": null, "data-root": null, "exec-root": null, "live-restore": null}', DEFAULT),
        (
            "",
            b'{"live-restore": true, "live-restore": null, "data-root": "/a", "data-root": "/b", "data-root": null}',
            ("/b", "/var/run/docker", DEFAULT.hosts, True),
        ),
        ("", b'{"hosts": ["fd://"], "hosts": null}', DEFAULT),
        ("", b" \n", DEFAULT),  # from 23.0 on; one that is older does not run with either
        ("", b'{"graph": "/g", "live-restore": false}', ("/g", "/var/run/docker", DEFAULT.hosts, False)),
    ],
)
def test_settings_are_those_of_the_flags_and_the_file(
    words: str, content: bytes | None, expected: DockerdConfiguration | tuple[str, str, tuple[str, ...], bool]
) -> None:
    found = read_configuration(("dockerd", *words.split()), content)

    values = (found.root, found.exec_root, found.hosts, found.live_restore)
    assert expected in {found, values}


@pytest.mark.parametrize(
    ("words", "content", "why"),
    [
        ("", b"{", "not JSON that dockerd reads"),
        ("", b"[]", "not a JSON object"),
        ("", b'{"Live-Restore": true}', "Live-Restore in daemon.json is not live-restore, and dockerd rejects it"),
        ("", b'{"hosts": 0}', "not a list of texts"),
        ("", b'{"hosts": [1]}', "not a list of texts"),
        ("", b'{"data-root": 1}', "data-root in daemon.json is not a text"),
        ("-H fd://", b'{"hosts": null}', "by a flag and in daemon.json"),
        ("", b'{"hosts": "fd://"}', "not a list"),
        ("", b'{"live-restore": "true"}', "neither true nor false"),
        ("-H fd://", b'{"hosts": ["fd://"]}', "by a flag and in daemon.json"),
        ("--live-restore", b'{"live-restore": true}', "by a flag and in daemon.json"),
        ("--data-root=/a", b'{"data-root": "/a"}', "by a flag and in daemon.json"),
    ],
)
def test_what_dockerd_rejects_is_told_before_a_restart(words: str, content: bytes, why: str) -> None:
    with pytest.raises(UnusableConfiguration, match=why):
        read_configuration(("dockerd", *words.split()), content)


def test_the_file_is_where_the_command_line_says() -> None:
    assert config_file(PLAIN) == "/etc/docker/daemon.json"
    assert config_file((*PLAIN, "--config-file", "/x")) == "/x"


@pytest.mark.parametrize(
    ("line", "command", "running", "same"),
    [
        ("", PLAIN, PLAIN, True),
        ("", PLAIN, (*PLAIN, "--debug"), False),
        (" ".join((*PLAIN, "$DOCKER_OPTS")), (), PLAIN, True),
        (" ".join((*PLAIN, "$DOCKER_OPTS")), (), (*PLAIN, "--debug"), True),
        (" ".join((*PLAIN, "--debug", "$DOCKER_OPTS")), (), PLAIN, False),
    ],
)
def test_a_start_is_compared_as_far_as_the_unit_shows_it(
    line: str, command: tuple[str, ...], running: tuple[str, ...], same: bool
) -> None:
    assert is_same_start(line, command, running) is same
