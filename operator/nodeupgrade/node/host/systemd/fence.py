"""The fence: while it is up, nothing can start the unit.

A mask in ``/run`` does not work for the many kubelet units in ``/etc/systemd/system``, which override it. So the fence
is a drop-in, which applies wherever the unit file is, with an assertion on a flag file. Assertions block ``Restart=``,
dependencies and people alike, and fail loudly. The drop-in is installed while the unit still runs, and stays for the
whole run; putting up or lifting the fence only renames the flag file. That takes neither a daemon-reload nor any space
nor an inode, so it works where ``/run`` is full. A reboot clears ``/run``. See docs/decisions/units.md.
"""

import contextlib
from pathlib import Path, PurePosixPath


class Fence:
    """The files that fence one unit.

    Args:
        unit: full name of the unit.
        root: mount point of the node's root directory.
    """

    def __init__(self, unit: str, root: Path) -> None:
        self.drop_in = drop_in(unit)
        self._text = drop_in_text(unit)
        self._drop_in_file = root / self.drop_in.relative_to("/")
        self._flag_file = root / flag(unit).relative_to("/")
        self._lifted_file = root / lifted(unit).relative_to("/")

    def prepare(self) -> None:
        """Write the lifted flag file, unless the flag is up."""
        if not self.up() and not self._lifted_file.exists():
            self._lifted_file.parent.mkdir(parents=True, exist_ok=True)
            self._lifted_file.touch()

    def written(self) -> bool:
        """Report whether the drop-in is there."""
        return self._drop_in_file.exists() and self._drop_in_file.read_bytes() == self._text.encode()

    def write(self) -> None:
        """Write the drop-in, which needs a daemon-reload."""
        self._drop_in_file.parent.mkdir(parents=True, exist_ok=True)
        new = self._drop_in_file.with_suffix(".new")
        new.write_text(self._text, encoding="ascii")
        new.replace(self._drop_in_file)

    def up(self) -> bool:
        """Report whether the flag file exists. It takes effect once systemd has loaded the drop-in."""
        return self._flag_file.exists()

    def put_up(self) -> None:
        """Put the flag file in its place; prepare() must have been called."""
        if not self.up():
            self._lifted_file.rename(self._flag_file)

    def take_down(self) -> None:
        """Take the flag file away."""
        with contextlib.suppress(FileNotFoundError):
            self._flag_file.rename(self._lifted_file)

    def remove(self) -> None:
        """Remove the files and the directories that this leaves empty, unless the fence is up."""
        if self.up():
            return
        for file in (self._drop_in_file, self._lifted_file):
            file.unlink(missing_ok=True)
        for directory in (self._drop_in_file.parent, self._flag_file.parent, self._flag_file.parent.parent):
            with contextlib.suppress(OSError):
                directory.rmdir()


# Drop-ins apply in the order of their names, and an empty assertion in a later one would cancel ours.
_DROP_IN = "zz-nodeupgrade-fence.conf"
_FLAGS = PurePosixPath("/run/nodeupgrade/fence")


def flag(unit: str) -> PurePosixPath:
    """Return the path of the flag file: the fence is up while it exists."""
    return _FLAGS / unit


def lifted(unit: str) -> PurePosixPath:
    """Return where the flag file is while the fence is not up."""
    return _FLAGS / f"{unit}.lifted"


def drop_in(unit: str) -> PurePosixPath:
    """Return the path of the drop-in that makes systemd check the flag."""
    return PurePosixPath("/run/systemd/system", f"{unit}.d", _DROP_IN)


def drop_in_text(unit: str) -> str:
    """Return the content of the drop-in."""
    return f"[Unit]\nAssertPathExists=!{flag(unit)}\n"
