"""What may lie where a file of ours is expected."""

import os
from pathlib import Path

KINDS = ("directory", "FIFO", "link", "loop", "dangling link")
"""Of what is no file."""


def put_in_place(path: Path, kind: str) -> None:
    """Replace a file by something of this kind; a link leads to the file, moved away."""
    if path.exists():
        path.rename(path.with_name("moved"))
    match kind:
        case "directory":
            path.mkdir()
        case "FIFO":
            os.mkfifo(path)
        case "link":
            path.symlink_to(path.with_name("moved"))
        case "loop":
            path.symlink_to(path)
        case _:
            path.symlink_to("/nonexistent")
