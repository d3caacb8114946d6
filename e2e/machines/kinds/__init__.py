"""The rows, by what they are about; those of one kind of machine are together."""

from e2e.machines.kinds import clocks, cuts, machines, memory, places, reboots, swaps
from e2e.machines.row import Row

_EVERY: tuple[Row, ...] = (*swaps.ROWS, *places.ROWS, *cuts.ROWS, *reboots.ROWS, *clocks.ROWS, *memory.ROWS)

ROWS: tuple[Row, ...] = tuple(sorted(_EVERY, key=lambda row: machines.KINDS.index(row.kind)))
