"""Generates plain ``sh`` with embedded data, for scripts that must be self-contained."""

import base64
from collections.abc import Iterable, Iterator

LINE_LENGTH = 120


def define_function(name: str, commands: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a function; without commands it does nothing and succeeds."""
    yield f"{name}() {{"
    yield "    :"
    yield from commands
    yield "}"


def piped_command(command: str, data: bytes) -> str:
    """Return a command that reads ``data`` as base64; if it fails, the function around it returns 1."""
    whole = base64.b64encode(data).decode("ascii")
    text = "\n".join(whole[i : i + LINE_LENGTH] for i in range(0, len(whole), LINE_LENGTH))
    return f"    {command} <<'.' || return 1\n{text}\n."
