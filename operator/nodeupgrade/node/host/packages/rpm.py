"""Asks rpm which packages own a file. Its database has three formats, so the program itself is asked (rpm(8))."""

import re
from pathlib import PurePosixPath

_RPM_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)
RPM_QUERY = ("/usr/bin/rpm", "--query", "--queryformat", "%{NAME}\\n", "--file")


def parse_owners(path: PurePosixPath, status: int, output: str, errors: str = "") -> tuple[str, ...] | None:
    """Return a file's packages from the exit status and the English output of RPM_QUERY.

    ``None`` if the answer is unclear: rpm also reports that no package owns a file if it could not read its database.
    """
    lines = tuple(output.split("\n")[:-1])
    if status == 1 and lines == (f"file {path} is not owned by any package",):
        return None if "error:" in errors else ()
    return lines if status == 0 and lines and all(map(_RPM_NAME.fullmatch, lines)) else None
