"""The paths and the drop-in that make up a unit's fence. Shared by the executor and the rescue script."""

from pathlib import PurePosixPath

# Drop-ins apply in the order of their names, and an empty assertion in a later one would cancel ours.
_DROP_IN = "zz-nodeupgrade-fence.conf"
_FLAGS = PurePosixPath("/run/nodeupgrade/fence")


def flag(unit: str) -> PurePosixPath:
    """Return the path of the flag file: the fence is up while it exists."""
    return _FLAGS / unit


def drop_in(unit: str) -> PurePosixPath:
    """Return the path of the drop-in that makes systemd check the flag."""
    return PurePosixPath("/run/systemd/system", f"{unit}.d", _DROP_IN)


def drop_in_text(unit: str) -> str:
    """Return the content of the drop-in."""
    return f"[Unit]\nAssertPathExists=!{flag(unit)}\n"
