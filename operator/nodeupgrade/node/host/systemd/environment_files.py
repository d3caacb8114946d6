"""The environment files of a unit: which files an EnvironmentFile names, and how systemd parses them.

An EnvironmentFile may be a pattern (glob(7)), for example /etc/kubelet.env.d/*.env.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

from nodeupgrade.text import trimmed

_WILD = frozenset("*?[\\")


def is_pattern(environment_file: str) -> bool:
    """Report whether the name of an EnvironmentFile may stand for several files."""
    return not _WILD.isdisjoint(environment_file)


def is_undetermined(environment_file: str) -> bool:
    """Report whether matching_files() cannot match a pattern: one of directories, or with more than ``*`` and ``?``.

    Versions of systemd and locales differ in how they read ranges of characters.
    """
    directory, _, name = environment_file.rpartition("/")
    return is_pattern(directory) or not _WILD.isdisjoint(set(name) - set("*?"))


def matching_files(environment_file: str, paths: Iterable[str]) -> tuple[str, ...]:
    """Return the paths that an EnvironmentFile names, in the order in which systemd reads them.

    A wildcard matches neither a slash nor a dot at the beginning of a name.
    """
    if not is_pattern(environment_file):
        return tuple(path for path in paths if path == environment_file)
    directory, _, pattern = environment_file.rpartition("/")
    inside = ((path, path.removeprefix(f"{directory}/")) for path in paths if path.startswith(f"{directory}/"))
    return tuple(
        sorted(
            path
            for path, name in inside
            if "/" not in name and fnmatchcase(name, pattern) and name.startswith(".") <= pattern.startswith(".")
        )
    )


VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
"""The names of variables that systemd passes on."""
# Versions of systemd differ in escapes within quotes and at the end of a comment: such a file does not match.
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_QUOTED = re.compile(r"""'([^'\\\0]*)'|"((?:[^"\\\0]|\\["\\`$\n])*)\"""")
_BETWEEN = re.compile(r"(?:\s|[#;](?:[^\n\r\\\0]|\\[^\n\r\0])*(?=[\n\r]|\Z))*", re.ASCII)
_ASSIGNMENT = re.compile(
    rf"""
    (?P<name> [^\s\#;\0] [^=\n\r\0]*)
    (?: = (?P<quoted> (?: [ \t]* (?:{_QUOTED.pattern}))*)
        [ \t]* (?P<plain> (?: [ \t]* (?: [^\\\s\0] | \\[^\0]))*) [ \t]*
    )? (?= [\n\r] | \Z)
    """,
    re.ASCII | re.VERBOSE,
)


def parse_assignments(data: bytes) -> dict[str, str] | None:
    """Parse an environment file as systemd does; ``None`` if its versions read the file differently.

    Quotes count only at the start of a value, or directly behind another quote. Elsewhere they are ordinary characters,
    which are resolved only when the command line is expanded.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    found: dict[str, str] = {}
    at = _after(_BETWEEN.match(text), 0)
    while at < len(text):
        line = _ASSIGNMENT.match(text, at)
        if line is None or (line["plain"] or "").startswith(("'", '"')):
            return None
        name = trimmed(line["name"])
        # systemd ignores other names, such as that in "export NAME=value".
        if line["plain"] is not None and VARIABLE.fullmatch(name):
            inside = (each[1] or each[2] or "" for each in _QUOTED.finditer(line["quoted"]))
            found[name] = "".join(map(_unescaped, (*inside, line["plain"])))
        at = _after(_BETWEEN.match(text, line.end()), line.end())
    return found


def _after(found: re.Match[str] | None, at: int) -> int:
    return at if found is None else found.end()


def _unescaped(text: str) -> str:
    """Resolve escapes; one before the end of a line joins it with the next."""
    return _ESCAPE.sub(lambda found: found[1].strip("\r\n"), text)
