"""Checks: named questions about a node, each defined in one place, with its reasons, hazards, and upstream changes.

To add one, write a function that takes facts and yields findings, decorate it with ``check``, and list it in the
``CHECKS`` of its module. Preflight, ``action: Plan``, ``nodeupgrade plan`` and docs/generated/preflight.md pick it up.
A check decides from facts that others have gathered; it performs no I/O and changes nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import wraps
from typing import Generic, TypeVar, get_args, get_type_hints

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.kubelet.history import ReleaseDefect
from nodeupgrade.kubelethash import MinorChange

F = TypeVar("F")
G = TypeVar("G")


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[F]):
    """One check.

    Attributes:
        name: name of the function that implements it.
        room: module of that function.
        facts: name of the class whose instances it judges.
        holds: what is true of a node that passes, in one sentence.
        reasons: all reasons that its findings may have.
        follows: the changes in Kubernetes that it is about; if empty, it applies to every version.
        covers: the hazards that it looks for.
        acceptable: whether a NodeUpgrade may go on in spite of its findings (docs/decisions/checks.md).
        find: the function; it yields nothing for a node that passes.
    """

    name: str
    room: str
    facts: str
    holds: str
    reasons: tuple[Reason, ...]
    follows: tuple[MinorChange | ReleaseDefect, ...]
    covers: tuple[Hazard, ...]
    acceptable: bool
    find: Callable[[F], Iterable[Finding]]

    def __call__(self, facts: F) -> Iterator[Finding]:
        """Return the findings for these facts, with the name of this check."""
        return (replace(finding, check=self.name) for finding in self.find(facts))

    def of(self, read: Callable[[G], F], when: Callable[[G], bool] = lambda _: True) -> "Check[G]":
        """Return this check adapted to a larger set of facts.

        Args:
            read: Extracts the facts that the check needs.
            when: Whether the check applies at all; if not, it finds nothing.
        """
        return Check(
            name=self.name,
            room=self.room,
            facts=self.facts,
            holds=self.holds,
            reasons=self.reasons,
            follows=self.follows,
            covers=self.covers,
            acceptable=self.acceptable,
            find=lambda facts: self.find(read(facts)) if when(facts) else (),
        )


def check(
    *reasons: Reason,
    follows: tuple[MinorChange | ReleaseDefect, ...] = (),
    covers: tuple[Hazard, ...] = (),
    acceptable: bool = True,
) -> Callable[[Callable[[F], Iterable[Finding]]], Check[F]]:
    """Declare a function as a check; the first paragraph of its docstring states what holds if it finds nothing."""

    def declare(find: Callable[[F], Iterable[Finding]]) -> Check[F]:
        holds = " ".join((find.__doc__ or "").partition("\n\n")[0].split())
        return Check(
            name=find.__name__,
            room=find.__module__,
            facts=_judged(find),
            holds=holds,
            reasons=reasons,
            follows=follows,
            covers=covers,
            acceptable=acceptable,
            find=find,
        )

    return declare


def _judged(find: Callable[[F], Iterable[Finding]]) -> str:
    """Return what a check judges, from its parameter's type; of several of a kind, the kind."""
    kind = next(iter(get_type_hints(find).values()))
    return str(next(iter(get_args(kind)), kind).__name__)


def check_one(
    *reasons: Reason,
    follows: tuple[MinorChange | ReleaseDefect, ...] = (),
    covers: tuple[Hazard, ...] = (),
    acceptable: bool = True,
) -> Callable[[Callable[[F], Finding | None]], Check[F]]:
    """Declare a function as a check that returns at most one finding."""

    def declare(find: Callable[[F], Finding | None]) -> Check[F]:
        @wraps(find)
        def find_one(facts: F) -> Iterator[Finding]:
            if (finding := find(facts)) is not None:
                yield finding

        return check(*reasons, follows=follows, covers=covers, acceptable=acceptable)(find_one)

    return declare


def ask(checks: Iterable[Check[F]], facts: F, accepted: Collection[str] = ()) -> tuple[Finding, ...]:
    """Run every check in order and return all findings.

    Args:
        accepted: names of checks whose findings are to be warnings, where a check permits that.
    """
    return tuple(
        _accepted(finding) if each.acceptable and each.name in accepted else finding
        for each in checks
        for finding in each(facts)
    )


def _accepted(finding: Finding) -> Finding:
    return replace(finding, severity=Severity.WARN, accepted=True) if finding.forbids else finding
