"""Checks: named questions about a node, each defined in one place, with its reasons, hazards, and upstream changes.

To add one, write a function that takes facts and yields what it finds, decorate it with ``check``, and list it in the
``CHECKS`` of its module. Preflight, ``action: Plan``, ``nodeupgrade plan`` and docs/generated/preflight.md pick it up.
A check decides from facts that others have gathered; it performs no I/O and changes nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar, get_args, get_type_hints

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.kubelet.history import ReleaseDefect
from nodeupgrade.kubelethash import MinorChange

F = TypeVar("F")
G = TypeVar("G")

Found: TypeAlias = Finding | str | tuple[object, str]
"""A finding; or the detail of one under the check's first reason, or its subject and its detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[F]):
    """One check."""

    name: str  # name of the function that implements it
    room: str  # module of that function
    facts: str  # name of the class whose instances it judges
    holds: str  # what is true of a node that passes, in one sentence
    reasons: tuple[Reason, ...]  # all reasons that its findings may have
    # the changes in Kubernetes that it is about; if empty, it applies to every version
    follows: tuple[MinorChange | ReleaseDefect, ...]
    covers: tuple[Hazard, ...]  # the hazards that it looks for
    acceptable: bool  # whether a NodeUpgrade may go on in spite of its findings (docs/decisions/checks.md)
    find: Callable[[F], Iterable[Finding]]  # the function; it yields nothing for a node that passes

    def __call__(self, facts: F) -> Iterator[Finding]:
        """Return the findings for these facts, with the name of this check."""
        return (replace(finding, check=self.name) for finding in self.find(facts))

    def of(self, read: Callable[[G], F], when: Callable[[G], bool] = lambda _: True) -> "Check[G]":
        """Return this check adapted to a larger set of facts.

        Args:
            read: Extracts the facts that the check needs.
            when: Whether the check applies at all; if not, it finds nothing.
        """
        anything: Check[Any] = self
        return replace(anything, find=lambda facts: self.find(read(facts)) if when(facts) else ())


def check(
    *about: Reason | Hazard | MinorChange | ReleaseDefect,
    acceptable: bool = True,
    warns: bool = False,
    remedy: str | None = None,
) -> Callable[[Callable[[F], Iterable[Found] | Found | None]], Check[F]]:
    """Declare a function as a check; the first paragraph of its docstring states what holds if it finds nothing.

    Args:
        about: the reasons of its findings, the most frequent one first; the hazards that it looks for; and the changes
            in Kubernetes that it follows.
        acceptable: as in Check.
        warns: whether its findings only warn, whatever the severity of their reason.
        remedy: the remedy of its findings, if it is not that of their reason.
    """
    reasons = tuple(each for each in about if isinstance(each, Reason))
    severity = Severity.WARN if warns else None

    def declare(function: Callable[[F], Iterable[Found] | Found | None]) -> Check[F]:
        def finding(found: Found) -> Finding:
            if not isinstance(found, Finding):
                subject, detail = ("", found) if isinstance(found, str) else found
                found = Finding(reason=reasons[0], subject=str(subject), detail=detail)
            own = found.remedy if found.remedy is not None else remedy
            return replace(found, severity=found.severity or severity, remedy=own)

        def find(facts: F) -> Iterable[Finding]:
            found = function(facts)
            if isinstance(found, str | Finding | tuple):
                return (finding(found),)
            return map(finding, found or ())

        return Check(
            name=function.__name__,
            room=function.__module__,
            facts=_judged(function),
            holds=" ".join((function.__doc__ or "").partition("\n\n")[0].split()),
            reasons=reasons,
            follows=tuple(each for each in about if isinstance(each, MinorChange | ReleaseDefect)),
            covers=tuple(each for each in about if isinstance(each, Hazard)),
            acceptable=acceptable,
            find=find,
        )

    return declare


def _judged(find: Callable[[F], object]) -> str:
    """Return what a check judges, from its parameter's type; of several of a kind, the kind."""
    kind = next(iter(get_type_hints(find).values()))
    return str(next(iter(get_args(kind)), kind).__name__)


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
