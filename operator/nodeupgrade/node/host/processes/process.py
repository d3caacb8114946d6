"""The identity of a process: its PID alone may be used again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process; its start time distinguishes it from a later one with the same PID."""

    pid: int  # process id in the node's PID namespace
    started: int  # clock ticks since boot, field 22 of ``/proc/PID/stat``
