"""Checks: named questions about a node, each defined in one place, with its reasons, hazards, and upstream changes.

To add one, write a function that takes facts and yields what it finds, and decorate it with ``check``; the checks of a
module run in the order of their definition. Preflight, ``action: Plan``, ``nodeupgrade plan`` and
docs/generated/preflight.md pick it up. A check decides from facts that others have gathered; it performs no I/O and
changes nothing.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Generic, TypeAlias, TypeVar, get_args, get_type_hints

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.findings.finding import Finding
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet.known_defects import ReleaseDefect
from nodeupgrade.kubelethash import MinorChange
from nodeupgrade.text import one_line

F = TypeVar("F")
G = TypeVar("G")

Found: TypeAlias = Finding | str | tuple[object, str]
"""A finding; or the detail of one under the check's first reason, or its subject and its detail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check(Generic[F]):
    """One check."""

    name: str  # name of the function that implements it
    room: str  # module of that function
    facts: type[object]  # the class whose instances it judges
    holds: str  # what is true of a node that passes, in one sentence
    reasons: tuple[Reason, ...]  # all reasons that its findings may have
    # the changes in Kubernetes that it is about; if empty, it applies to every version
    follows: tuple[MinorChange | ReleaseDefect, ...]
    covers: tuple[Hazard, ...]  # the hazards that it looks for
    warns: bool  # whether its findings only warn
    acceptable: bool  # whether a NodeUpgrade may go on in spite of its findings (docs/decisions/checks.md)
    severity: Severity | None  # the severity of its findings, if it is not that of their reason
    remedy: str | None  # the remedy of its findings, if it is not that of their reason
    find: Callable[[F], Iterable[Found] | Found | None]  # the function; None or nothing for a node that passes

    def __call__(self, facts: F, accepted: Collection[str] = ()) -> Sequence[Finding]:
        """Return the findings for these facts, with the name of this check.

        Most checks find nothing on most nodes of large fleets, so that costs a call of the function and no more.

        Args:
            facts: what it judges.
            accepted: names of checks whose findings are to be warnings, where a check permits that.
        """
        if (found := self.find(facts)) is None:
            return ()
        each = (found,) if isinstance(found, str | Finding | tuple) else found
        return tuple(self._finding(one, accepted) for one in each)

    def _finding(self, found: Found, accepted: Collection[str]) -> Finding:
        if not isinstance(found, Finding):
            subject, detail = ("", found) if isinstance(found, str) else found
            found = Finding(reason=self.reasons[0], subject=str(subject), detail=detail)
        remedy = found.remedy if found.remedy is not None else self.remedy
        found = replace(found, check=self.name, severity=found.severity or self.severity, remedy=remedy)
        if found.forbids and self.acceptable and self.name in accepted:
            return replace(found, severity=Severity.WARN, accepted=True)
        return found

    def of(self, read: Callable[[G], F | None]) -> "Check[G]":
        """Return this check of larger facts, from which ``read`` takes its own; ``None`` if it does not apply."""
        anything: Check[Any] = self
        return replace(anything, find=lambda facts: None if (own := read(facts)) is None else self.find(own))


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

    def declare(function: Callable[[F], Iterable[Found] | Found | None]) -> Check[F]:
        return Check(
            name=function.__name__,
            room=function.__module__,
            facts=_judged(function),
            holds=one_line((function.__doc__ or "").partition("\n\n")[0]),
            reasons=reasons,
            follows=tuple(each for each in about if isinstance(each, MinorChange | ReleaseDefect)),
            covers=tuple(each for each in about if isinstance(each, Hazard)),
            warns=warns or all(reason.severity is Severity.WARN for reason in reasons),
            acceptable=acceptable,
            severity=Severity.WARN if warns else None,
            remedy=remedy,
            find=function,
        )

    return declare


def _judged(find: Callable[[F], object]) -> type[object]:
    """Return what a check judges, from its parameter's type; of several of a kind, the kind."""
    kind: type[object] = next(iter(get_type_hints(find).values()))
    return next(iter(get_args(kind)), kind)


def checks_of(*modules: ModuleType, warns: bool) -> tuple[Check[Any], ...]:
    """Return the checks that modules define, in that order: those that only warn, or those that may forbid."""
    found = ((module, each) for module in modules for each in vars(module).values() if isinstance(each, Check))
    return tuple(each for module, each in found if each.room == module.__name__ and each.warns is warns)


def ask(checks: Iterable[Check[F]], facts: F, accepted: Collection[str] = ()) -> tuple[Finding, ...]:
    """Run every check in order and return all findings; for ``accepted``, see ``Check``."""
    return tuple(finding for each in checks for finding in each(facts, accepted))
