"""Imports are followed as containerd follows them: relative, by pattern, and through other files."""

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.runtimes.containerd.imports import MOST, Imports, find_imports
from tests.doubles.node.calls import Calls
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.timeline import Timeline

CONFIG = "/etc/containerd/config.toml"


def found(disk: dict[str, str], shown: object = None) -> Imports:
    files = SimulatedFiles({path: text.encode() for path, text in disk.items()}, Calls(Timeline()))
    return find_imports(files, CONFIG, shown)


@pytest.mark.parametrize(
    ("disk", "files", "patterns", "directories"),
    [
        ({}, (), (), ()),
        ({CONFIG: "imports = 7"}, (), (), ()),
        ({CONFIG: "imports = ["}, (), (), ()),
        ({CONFIG: "imports = [7, '']"}, (), (), ()),
        ({CONFIG: "imports = ['extra.toml']"}, ("/etc/containerd/extra.toml",), (), ()),
        ({CONFIG: "imports = ['../x//./extra.toml']"}, ("/etc/x/extra.toml",), (), ()),
        ({CONFIG: "imports = ['config.toml']"}, (), (), ()),
        (
            {CONFIG: "imports = ['conf.d/*.toml']", "/etc/containerd/conf.d/99-gpu.toml": "", "/etc/containerd/a": ""},
            ("/etc/containerd/conf.d/99-gpu.toml",),
            ("/etc/containerd/conf.d/*.toml", "/etc/containerd/conf.d/.*.toml"),
            (),
        ),
        ({CONFIG: "imports = ['/opt/[ab].toml']", "/opt/a.toml": ""}, ("/opt/[ab].toml",), (), ()),
        (
            {CONFIG: "imports = ['/opt/*/[^a].toml']", "/opt/x/a.toml": "", "/opt/x/b.toml": "", "/opt/b.toml": ""},
            ("/opt/x/b.toml",),
            (),
            ("/opt",),
        ),
        (
            {CONFIG: "imports = ['/opt/*.toml']", "/opt/a.toml": "imports = ['more/b.toml', '/opt/a.toml']"},
            ("/opt/a.toml", "/opt/more/b.toml"),
            ("/opt/*.toml", "/opt/.*.toml"),
            (),
        ),
        ({CONFIG: "imports = ['/opt/?*.toml']"}, (), ("/opt/?*.toml", "/opt/.*.toml"), ()),
        ({CONFIG: "imports = ['/opt/a*[b]']"}, (), (), ("/opt",)),
    ],
)
def test_what_is_imported_is_found(
    disk: dict[str, str], files: tuple[str, ...], patterns: tuple[str, ...], directories: tuple[str, ...]
) -> None:
    assert found(disk) == Imports(files=files, patterns=patterns, directories=directories)


def test_what_the_program_shows_is_followed_unless_it_is_relative() -> None:
    shown = ["/opt/*.toml", CONFIG, "extra.toml", "/srv/c.toml"]

    assert found({"/opt/a.toml": ""}, shown) == Imports(
        files=("/opt/a.toml", "/srv/c.toml"), patterns=("/opt/*.toml", "/opt/.*.toml")
    )


@pytest.mark.parametrize(
    "disk", [{CONFIG: "imports = ['/*/a.toml']"}, {CONFIG: f"imports = {[*map(str, range(MOST + 1))]}"}]
)
def test_what_would_take_too_long_is_refused(disk: dict[str, str]) -> None:
    with pytest.raises(StepFailed):
        found(disk)
