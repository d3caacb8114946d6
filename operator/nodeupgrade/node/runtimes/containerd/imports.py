"""Finds the files that a containerd configuration imports, as its program does.

containerd 2 shows imports as they are written, only 1.x shows the files (``cmd/containerd/server/config``: LoadConfig).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from os.path import normpath
from pathlib import PurePosixPath

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.files.files import FilesView
from nodeupgrade.node.host.systemd.environment_files import is_undetermined
from nodeupgrade.text import parse_toml

MOST = 200
"""Files and patterns that are followed."""

_MAGIC = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imports:
    """What a configuration imports, directly or through another file."""

    files: tuple[str, ...]  # those that exist, and those that are named without a pattern; without the first
    patterns: tuple[str, ...] = ()  # patterns of files in one directory, as `matching_files` reads them
    directories: tuple[str, ...] = ()  # where other patterns look for files


def find_imports(files: FilesView, config: str, shown: object = None) -> Imports:
    """Follow the imports of a configuration file.

    Args:
        files: the files of the node.
        config: the configuration file.
        shown: ``imports`` as the program shows them; relative ones are left out, since any file may contain them.

    Raises:
        StepFailed: a file cannot be read, there are too many, or a pattern looks through the whole disk.
    """
    start = PurePosixPath(config)
    found, directories = dict[PurePosixPath, None](), dict[PurePosixPath, None]()
    pending = [*_imported(files, start), *(path for path in _paths(shown, start) if str(path) in _texts(shown))]
    while pending:
        path = pending.pop(0)
        if path == start or path in found or path in directories:
            continue
        if len(found) + len(directories) >= MOST:
            raise StepFailed(f"{config} imports more than {MOST} files")
        # Any other pattern is taken literally (``strings.Contains(path, "*")``).
        if "*" not in str(path):
            found[path] = None
            pending += _imported(files, path)
            continue
        directories[path] = None
        pending = [*_matching(files, path), *pending]
    others = [each for each in directories if is_undetermined(str(each))]
    return Imports(
        files=tuple(map(str, found)),
        patterns=tuple(pattern for each in directories if each not in others for pattern in _with_hidden(each)),
        directories=tuple(dict.fromkeys(str(_searched(each)) for each in others)),
    )


def _texts(shown: object) -> frozenset[str]:
    return frozenset(str(each) for each in shown) if isinstance(shown, list) else frozenset()


def _imported(files: FilesView, path: PurePosixPath) -> list[PurePosixPath]:
    """Return what a file imports; nothing if it is no TOML, which the program reports itself."""
    try:
        return _paths(parse_toml(files.read(path) or b"").get("imports"), path)
    except ValueError:
        return []


def _paths(imports: object, parent: PurePosixPath) -> list[PurePosixPath]:
    listed = imports if isinstance(imports, list) else []
    named = (each for each in listed if isinstance(each, str) and each and "\0" not in each)
    return [PurePosixPath(normpath(parent.parent / each)) for each in named]


def _with_hidden(pattern: PurePosixPath) -> Iterator[str]:
    """Yield a pattern, and the one for names that begin with a dot: here a wildcard matches that as well."""
    yield str(pattern)
    if pattern.name[0] in "*?":
        yield str(pattern.with_name(f".{pattern.name.removeprefix('?')}"))


def _matching(files: FilesView, pattern: PurePosixPath) -> list[PurePosixPath]:
    searched = _searched(pattern)
    if searched == PurePosixPath("/"):
        raise StepFailed(f"its configuration imports {pattern}, a pattern that looks through the whole disk")
    # A link to a file counts, and only walking shows one.
    below = (path for path in files.walk(searched) if len(path.parts) == len(pattern.parts))
    return [path for path in below if all(map(_matches, path.parts, pattern.parts))]


def _searched(pattern: PurePosixPath) -> PurePosixPath:
    """Return the directory below which a pattern looks for files: what precedes its first wildcard."""
    plain = next(at for at, part in enumerate(pattern.parts) if _MAGIC.search(part))
    return PurePosixPath(*pattern.parts[:plain])


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern.replace("[^", "[!"))
