"""Files of a node are read through one module, which reads regular files only, and never more than a limit."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.test_the_house import SOURCE_ROOT, modules

NODE = SOURCE_ROOT / "nodeupgrade" / "node"
EXEMPT = {
    "host/files/reading.py": "reads, for all others",
    "host/processes/processes.py": "reads a fixed amount of what the kernel says of each of hundreds of processes",
    "host/packages/package_holds.py": "locks a file and reads nothing of it",
    "host/files/host_files.py": "asks for attributes of directories too",
    "host/files/misplaced.py": "changes attributes of directories",
    "host/systemd/fence.py": "compares its own file, which is in memory and root's alone",
    "journal/journal_file.py": "writes",
    "shield/socket_exchange.py": "locks",
    "bundle/build.py": "reads the agent's own image",
    "bundle/image_root.py": "reads the agent's own image",
    "bundle/store.py": "reads a bundle, which is root's alone",
    "failpoints/interruption.py": "reads what tests write",
    "running_kubelet/isolation.py": "runs without this package, and reads what the kernel says",
    "host/processes/bounded_run.py": "reads from pipes, and no more than a limit",
    "running_kubelet/credential_programs.py": "reads from pipes",
}
"""Modules that open or read something in another way, and why."""
_READING = frozenset(
    {"read_bytes", "read_text", "readlines", "readline", "copyfile", "copy2", "copytree", "copyfileobj"}
)


def reading(source: str) -> Iterator[str]:
    """Calls that may read a file, of whatever kind and size, or wait for one."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="open" | "read_text" | "read_bytes")):
                yield "open"
            case ast.Call(func=ast.Attribute(attr=name)) if name in _READING:
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="os"), attr="read")):
                yield "os.read"
            case ast.Call(func=ast.Attribute(attr="open"), args=[*_, ast.Constant(value=str(mode))]) if "r" in mode:
                yield f"open for {mode}"
            case ast.Call(func=ast.Attribute(attr="open")) if _is_to_be_read(node):
                yield "open"
            case _:
                pass


def _is_to_be_read(call: ast.Call) -> bool:
    return bool({each.attr for each in ast.walk(call) if isinstance(each, ast.Attribute)} & {"O_RDONLY", "O_RDWR"})


SOURCES = {str(path.relative_to(NODE)): path for path in modules() if path.is_relative_to(NODE)}


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - EXEMPT.keys()))
def test_no_other_module_opens_a_file_to_read_it(name: str) -> None:
    assert list(reading(SOURCES[name].read_text())) == []


@pytest.mark.parametrize("name", EXEMPT)
def test_every_exemption_is_needed(name: str) -> None:
    assert list(reading(SOURCES[name].read_text()))


@pytest.mark.parametrize(
    "source",
    [
        "Path(x).read_bytes()", "path.read_text()", "open(x)", "path.open('rb')", "shutil.copy2(a, b)",
        "os.open(x, os.O_RDONLY | os.O_CLOEXEC)", "disk.open(x, os.O_RDWR)", "os.read(fd, 1)",
    ],
)  # fmt: skip
def test_it_would_be_noticed(source: str) -> None:
    assert list(reading(source))
