"""The rows, by what they are about."""

from e2e.kubeadm.kinds import commands, files, members, swaps, three
from e2e.kubeadm.row import Row

ROWS: tuple[Row, ...] = (*swaps.ROWS, *commands.ROWS, *files.ROWS, *members.ROWS, *three.ROWS)
