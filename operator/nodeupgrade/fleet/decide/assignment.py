"""Which wave each node of a rollout belongs to; the node that the operator runs on comes last in its wave."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodeupgrade.api.upgrade.waves import REMAINDER, Wave
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.placement import matches_labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Unassigned:
    """A member before it is assigned to a wave."""

    node: NodeName
    labels: Mapping[str, str]
    wave: str = ""  # the wave that its slot or claim records; empty if it has neither
    idle: bool = False  # whether it needs nothing, and so does not count against the size of a wave
    late: bool = False  # whether the plan was made without it


def assign(
    waves: Sequence[Wave], members: Iterable[Unassigned], last: NodeName | None = None
) -> Mapping[NodeName, str]:
    """Return the wave of every member, in upgrade order: wave by wave, then by name; ``last`` comes last in its wave.

    The slot or the claim decides; without one, it is the first wave, in the order of ``waves``, that selects the member
    or has room for it. All others belong to the remainder.
    """
    ordered = sorted(members, key=lambda member: (member.node == last, member.node))
    names = [*(wave.name for wave in waves), REMAINDER]
    assigned = {member.node: member.wave for member in ordered if member.wave in names}
    sizes = Counter(assigned.values())
    for wave in waves:
        left = [member for member in ordered if member.node not in assigned]
        if wave.selector is not None:
            chosen = [member.node for member in left if matches_labels(wave.selector, member.labels)]
        else:
            size = wave.size.of(len(ordered)) if wave.size is not None else 0
            chosen = [member.node for member in left if not member.idle][: max(0, size - sizes[wave.name])]
        assigned |= dict.fromkeys(chosen, wave.name)
    wave_of = {member.node: assigned.get(member.node, REMAINDER) for member in ordered}
    return dict(sorted(wave_of.items(), key=lambda item: names.index(item[1])))
