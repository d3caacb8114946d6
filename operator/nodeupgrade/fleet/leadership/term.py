"""What a leader marks objects with: its term of office and its name, as ``7-POD_ID``."""

from nodeupgrade.fleet.leadership.lease import LAST_TERM
from nodeupgrade.text import number


def epoch_of(term: int, identity: str) -> str:
    """Return the mark of a term."""
    return f"{term}-{identity}"


def term_of(epoch: str) -> int:
    """Return the term that a mark is of; 0 if there is none, or if it is none that an operator has written."""
    term = number(epoch.partition("-")[0]) or 0
    return term if term <= LAST_TERM else 0


def supersedes(mark: str, epoch: str) -> bool:
    """Report whether a mark shows that the term of ``epoch`` is over.

    Another mark of the same term does so, too: a term of both that is later than this one settles which is valid.
    """
    return mark != epoch and term_of(mark) > 0 and term_of(mark) >= term_of(epoch)
