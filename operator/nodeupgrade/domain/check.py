"""A check: a named question about a node, with everything that there is to say about it in one place.

Who adds one writes a function that takes what it looks at and yields findings, declares it with ``check``, and names it
in the ``CHECKS`` of its room. Preflight, ``action: Plan``, ``nodeupgrade plan`` and docs/checks.md take it from there.
A check decides from facts that others have gathered; it reads nothing and changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Generic, TypeVar

from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.finding import Finding
from nodeupgrade.kubelet.history import ReleaseDefect
from nodeupgrade.kubelethash import MinorChange

F = TypeVar("F")
G = TypeVar("G")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[F]):
    """One question.

    Attributes:
        name: of the function that answers it, by which it is found in the code.
        room: the module of that function.
        holds: what is true of a node about which it finds nothing, in one sentence.
        reasons: all that its findings may have.
        follows: what of Kubernetes it follows; without any it concerns every version.
        find: the function.
    """

    name: str
    room: str
    holds: str
    reasons: tuple[Reason, ...]
    follows: tuple[MinorChange | ReleaseDefect, ...]
    find: Callable[[F], Iterable[Finding]]

    def __call__(self, facts: F) -> Iterator[Finding]:
        """What it finds."""
        return iter(self.find(facts))

    def of(self, read: Callable[[G], F], when: Callable[[G], bool] = lambda _: True) -> "Check[G]":
        """The same check of more facts, among which are those that it looks at.

        Args:
            read: how they are found among the others.
            when: whether it is asked at all.
        """
        return Check(
            name=self.name,
            room=self.room,
            holds=self.holds,
            reasons=self.reasons,
            follows=self.follows,
            find=lambda facts: self.find(read(facts)) if when(facts) else (),
        )


def check(
    *reasons: Reason, follows: tuple[MinorChange | ReleaseDefect, ...] = ()
) -> Callable[[Callable[[F], Iterable[Finding]]], Check[F]]:
    """Declare a function to be a check; the first paragraph of its docstring says what holds if it finds nothing."""

    def declare(find: Callable[[F], Iterable[Finding]]) -> Check[F]:
        holds = " ".join((find.__doc__ or "").partition("\n\n")[0].split())
        return Check(name=find.__name__, room=find.__module__, holds=holds, reasons=reasons, follows=follows, find=find)

    return declare


def check_one(
    *reasons: Reason, follows: tuple[MinorChange | ReleaseDefect, ...] = ()
) -> Callable[[Callable[[F], Finding | None]], Check[F]]:
    """Declare a function to be a check that finds one thing at most."""

    def declare(find: Callable[[F], Finding | None]) -> Check[F]:
        @wraps(find)
        def found(facts: F) -> Iterator[Finding]:
            if (finding := find(facts)) is not None:
                yield finding

        return check(*reasons, follows=follows)(found)

    return declare


def ask(checks: Iterable[Check[F]], facts: F) -> tuple[Finding, ...]:
    """Ask every check, in order."""
    return tuple(finding for each in checks for finding in each(facts))
