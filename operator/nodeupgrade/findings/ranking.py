"""Rank findings by what a person must do: findings with one remedy are one group, what forbids comes first."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from nodeupgrade.api.reasons import Severity
from nodeupgrade.findings.finding import Finding, pod_of

_ORDER = tuple(Severity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Findings of one check about pods, with one remedy; or a single finding about the node."""

    first: Finding  # the first of the findings
    subjects: tuple[str, ...]  # the pods or containers that they are about, as the findings name them
    pods: tuple[str, ...]  # the pods that they are about, as ``namespace/pod``
    owners: tuple[tuple[str, int], ...]  # whose pods these are, with their number, most pods first


def ranked(findings: Iterable[Finding]) -> tuple[Group, ...]:
    """Group findings; within the same severity, groups are in the order of their first findings."""
    groups: dict[object, list[Finding]] = {}
    for number, finding in enumerate(findings):
        about_pods = finding.check and pod_of(finding.subject)
        same = (finding.check, finding.reason, finding.remedy, finding.weight, finding.accepted)
        groups.setdefault(same if about_pods else number, []).append(finding)
    found = (_group(members) for members in groups.values())
    return tuple(sorted(found, key=lambda group: _ORDER.index(group.first.weight)))


def _group(findings: list[Finding]) -> Group:
    owner_of = {pod: finding.owner for finding in findings if (pod := pod_of(finding.subject))}
    owners = Counter(owner for owner in owner_of.values() if owner)
    subjects = tuple(dict.fromkeys(finding.subject for finding in findings if finding.subject))
    return Group(first=findings[0], subjects=subjects, pods=tuple(owner_of), owners=tuple(owners.most_common()))
