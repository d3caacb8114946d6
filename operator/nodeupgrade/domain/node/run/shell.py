"""Pieces of plain ``sh`` with data in them, for scripts that have to need nothing else."""

import base64
from collections.abc import Iterable, Iterator

LINE_LENGTH = 120


def function(name: str, commands: Iterable[str]) -> Iterator[str]:
    """The lines of a function; without any command it does nothing, and well."""
    yield f"{name}() {{"
    yield "    :"
    yield from commands
    yield "}"


def piped(command: str, data: bytes) -> str:
    """A command within a function that reads ``data`` as base64; the function ends when it fails."""
    whole = base64.b64encode(data).decode("ascii")
    text = "\n".join(whole[i : i + LINE_LENGTH] for i in range(0, len(whole), LINE_LENGTH))
    return f"    {command} <<'.' || return 1\n{text}\n."
