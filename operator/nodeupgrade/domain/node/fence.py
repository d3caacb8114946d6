"""Where the fence of a unit stands, for everything that raises or lifts it: this program, and the rescue script."""

from pathlib import PurePosixPath

# Drop-ins apply in the order of their names, and an empty assertion in a later one would cancel ours.
_DROP_IN = "zz-nodeupgrade-fence.conf"
_FLAGS = PurePosixPath("/run/nodeupgrade/fence")


def flag(unit: str) -> PurePosixPath:
    """The fence is up while this file exists."""
    return _FLAGS / unit


def drop_in(unit: str) -> PurePosixPath:
    """The drop-in by which systemd heeds the flag."""
    return PurePosixPath("/run/systemd/system", f"{unit}.d", _DROP_IN)


def drop_in_text(unit: str) -> str:
    """What the drop-in says."""
    return f"[Unit]\nAssertPathExists=!{flag(unit)}\n"
