"""The fence: nothing and nobody can start a unit while it is up.

A runtime mask would be the obvious means, but a unit file in ``/etc/systemd/system`` wins over a mask in
``/run``, and that is where many kubelet units live. The fence is a drop-in with an assertion on a flag file
instead. Drop-ins apply wherever the unit file lives; assertions hold against ``Restart=``, dependencies and
people alike, and fail loudly. The drop-in is put in place while the unit still runs; raising and lifting the
fence is then one file each, without making systemd read its units again. Everything is in ``/run``, so that a
reboot clears it. See docs/decisions/systemctl-and-the-fence.md.
"""

import contextlib
from pathlib import Path

from nodeupgrade.domain.node import fence


class Fence:
    """The files that fence one unit.

    Args:
        unit: full name of the unit.
        root: where the node's root directory is seen.
    """

    def __init__(self, unit: str, root: Path) -> None:
        self.drop_in = fence.drop_in(unit)
        self._text = fence.drop_in_text(unit)
        self._drop_in_file = root / self.drop_in.relative_to("/")
        self._flag_file = root / fence.flag(unit).relative_to("/")

    def prepare(self) -> bool:
        """Write the drop-in; say whether systemd has to read its units again for it."""
        if self._drop_in_file.exists() and self._drop_in_file.read_text(encoding="ascii") == self._text:
            return False
        self._drop_in_file.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._drop_in_file.with_suffix(".new")
        fresh.write_text(self._text, encoding="ascii")
        fresh.replace(self._drop_in_file)
        return True

    def up(self) -> bool:
        """Whether the flag is raised. It has effect once systemd has read the drop-in."""
        return self._flag_file.exists()

    def put_up(self) -> None:
        """Raise the flag."""
        self._flag_file.parent.mkdir(parents=True, exist_ok=True)
        self._flag_file.touch()

    def take_down(self) -> None:
        """Lower the flag, then remove the drop-in and the directories that are empty without it."""
        self._flag_file.unlink(missing_ok=True)
        self._drop_in_file.unlink(missing_ok=True)
        for directory in (self._drop_in_file.parent, self._flag_file.parent, self._flag_file.parent.parent):
            with contextlib.suppress(OSError):
                directory.rmdir()
