"""Records of a journal."""

from dataclasses import replace

from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import BootIdentity
from nodeupgrade.node.journal.journal import Mark, Record


def record(seq: int, mark: Mark = Mark.DONE, **more: object) -> Record:
    step = None if mark is Mark.FINISHED else Step.SWAP_BINARY
    whole = Record(seq=seq, mark=mark, step=step, boot=BootIdentity("b"), at="t", monotonic=1.0)
    return replace(whole, **more)  # type: ignore[arg-type]


RECORDS = tuple(record(seq) for seq in (1, 2, 3))
