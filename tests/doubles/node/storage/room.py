"""How much room the model of a disk has."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """Implements node.host.files.system_calls.Space: always plenty."""

    f_bavail: int = 10 * 1024**2
    f_frsize: int = 1024
    f_blocks: int = 16 * 1024**2
    f_files: int = 1024**2
    f_ffree: int = 1024**2
    f_flag: int = 0
