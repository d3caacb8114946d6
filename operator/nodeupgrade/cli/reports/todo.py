"""What people must do before nodes can be upgraded: everything found on them, by check, what forbids most first."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from nodeupgrade.api.reasons import NOTHING_TO_DO, Severity, known_reason
from nodeupgrade.api.task.status import PodOwner, ReportedHazard
from nodeupgrade.api.values import Verdict
from nodeupgrade.findings.finding import Finding
from nodeupgrade.findings.ranking import ranked
from nodeupgrade.fleet.decide.node_state import NodeState, Place

OWNERS_NAMED = 5

_ORDER = tuple(severity.value for severity in Severity)
_WARN = Severity.WARN.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Todo:
    """One thing to do, on one or more nodes."""

    severity: str
    reason: str
    check: str = ""  # name of the check that asks for it; empty if no check does
    accepted: bool = False  # whether it would forbid the upgrade, had the NodeUpgrade not accepted the check
    remedy: str  # what to do
    example: str  # what was seen on the first node
    nodes: tuple[str, ...]
    pods: int = 0  # how many pods it is about; 0 if it is about the nodes
    owners: tuple[PodOwner, ...] = ()  # whose pods these are, most pods first; the first few

    @property
    def kind(self) -> tuple[int, str, str, str, bool]:
        """What it has in common with others that are done with it."""
        return (_ORDER.index(self.severity), self.reason, self.check, self.remedy, self.accepted)


def todo(
    members: Iterable[NodeState],
    findings: Mapping[str, tuple[Finding, ...]],
    hazards: Mapping[str, tuple[ReportedHazard, ...]],
) -> tuple[Todo, ...]:
    """Sum up what is to be done: refusals, then skips, then warnings, those accepted first.

    Findings are those of checks that know the API alone; hazards are what nodes themselves have reported.
    """
    found = [
        each
        for member in members
        for each in _found(member, findings.get(member.node, ()), hazards.get(member.node, ()))
    ]
    found.sort(key=lambda each: each.kind)
    made = [_together(list(group)) for _, group in groupby(found, key=lambda each: each.kind)]
    made.sort(key=lambda each: (_ORDER.index(each.severity), not each.accepted, -len(each.nodes)))
    return tuple(made)


def _found(member: NodeState, findings: tuple[Finding, ...], hazards: tuple[ReportedHazard, ...]) -> Iterator[Todo]:
    """Yield the objections to a member's upgrade in its present place, and all warnings."""
    reported = [_reported(member.node, hazard) for hazard in hazards]
    seen = {each.check for each in reported}
    judged = [each for each in _judged(member.node, findings) if each.check not in seen]
    against = [each for each in (reported if _is_refused_by_agent(member) else judged) if each.severity != _WARN]
    if member.place in {Place.REFUSED, Place.HELD, Place.SKIPPED}:
        yield from against or (_of_state(member),)
    yield from (each for each in (*reported, *judged) if each.severity == _WARN)


def _is_refused_by_agent(member: NodeState) -> bool:
    verdict = None if member.task is None else member.task.verdict
    return verdict is not None and verdict.outcome is Verdict.REFUSED and member.reason == verdict.reason


def _judged(node: str, findings: Iterable[Finding]) -> Iterator[Todo]:
    for group in ranked(findings):
        first = group.first
        yield Todo(
            nodes=(node,),
            severity=first.weight.value,
            reason=first.reason,
            check=first.check,
            accepted=first.accepted,
            remedy=first.reason.remedy if first.remedy is None else first.remedy,
            example=first.detail,
            pods=len(group.pods),
            owners=tuple(PodOwner(name=owner, pods=number) for owner, number in group.owners),
        )


def _reported(node: str, hazard: ReportedHazard) -> Todo:
    known = known_reason(hazard.reason)
    skipped = known is not None and known.severity is Severity.SKIP
    return Todo(
        nodes=(node,),
        severity=(Severity.WARN if hazard.warning else Severity.SKIP if skipped else Severity.REFUSE).value,
        reason=hazard.reason,
        check=hazard.check,
        accepted=hazard.accepted,
        remedy=NOTHING_TO_DO if known is None else known.remedy,
        example=": ".join(filter(None, (node, hazard.pod, hazard.detail))),
        pods=hazard.pods,
        owners=hazard.owners,
    )


def _of_state(member: NodeState) -> Todo:
    return Todo(
        nodes=(member.node,),
        severity=(Severity.SKIP if member.place is Place.SKIPPED else Severity.REFUSE).value,
        reason=member.reason,
        remedy=member.reason.remedy,
        example=member.message,
    )


def _together(found: list[Todo]) -> Todo:
    owners = Counter[str]()
    for each in found:
        owners.update({owner.name: owner.pods for owner in each.owners})
    return replace(
        found[0],
        nodes=tuple(dict.fromkeys(node for each in found for node in each.nodes)),
        pods=sum(each.pods for each in found),
        owners=tuple(PodOwner(name=name, pods=pods) for name, pods in owners.most_common(OWNERS_NAMED)),
    )
