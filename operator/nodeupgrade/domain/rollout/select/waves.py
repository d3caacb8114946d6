"""Waves: which node belongs to which, which one it is the turn of, and what stands between it and the next."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.reasons import Reason, counted, sentence
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.status import WaveState
from nodeupgrade.api.upgrade.waves import REMAINDER, ApprovalPolicy, Wave
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain.placement import matches_labels
from nodeupgrade.domain.rollout.select.approvals import approved_by
from nodeupgrade.domain.rollout.select.node_state import NodeState, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Recruit:
    """A member that is to be put into a wave.

    Attributes:
        wave: the one that its claim names; empty if it is not claimed.
        idle: whether it needs nothing, so that it takes no place in a wave of limited size.
    """

    node: NodeName
    labels: Mapping[str, str]
    wave: str = ""
    idle: bool = False


def assign(waves: Sequence[Wave], recruits: Sequence[Recruit]) -> Mapping[NodeName, str]:
    """Name the wave of every member: the claim decides, else the first wave that takes it, in the given order."""
    names = {wave.name for wave in waves} | {REMAINDER}
    taken = {recruit.node: recruit.wave for recruit in recruits if recruit.wave in names}
    left = [recruit for recruit in recruits if recruit.node not in taken]
    sizes: dict[str, int] = {}
    for name in taken.values():
        sizes[name] = sizes.get(name, 0) + 1
    for wave in waves:
        if wave.selector is not None:
            selector = wave.selector
            chosen = [recruit.node for recruit in left if matches_labels(selector, recruit.labels)]
        else:
            size = wave.size.of(len(recruits)) if wave.size is not None else 0
            able = [recruit.node for recruit in left if not recruit.idle]
            chosen = able[: max(0, size - sizes.get(wave.name, 0))]
        taken |= dict.fromkeys(chosen, wave.name)
        left = [recruit for recruit in left if recruit.node not in taken]
    return {**taken, **{recruit.node: REMAINDER for recruit in left}}


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRoster:
    """A wave and how its nodes stand."""

    terms: Wave
    members: tuple[NodeState, ...]

    @property
    def name(self) -> str:
        """Its name."""
        return self.terms.name

    @property
    def over(self) -> bool:
        """Whether each of its nodes is finished, skipped or refused for good."""
        return not any(member.blocks for member in self.members)

    @property
    def begun(self) -> bool:
        """Whether one of its nodes has been started."""
        return any(member.begun for member in self.members)


def rosters(waves: Sequence[Wave], members: Mapping[NodeName, NodeState]) -> tuple[WaveRoster, ...]:
    """Sort members into waves, in order; the remainder is one only if it has nodes or is all there is."""
    by_wave: dict[str, list[NodeState]] = {wave.name: [] for wave in waves}
    for member in members.values():
        by_wave.setdefault(member.wave, []).append(member)
    if not waves:
        by_wave.setdefault(REMAINDER, [])
    terms = {wave.name: wave for wave in waves}
    return tuple(
        WaveRoster(terms=terms.get(name) or Wave(name=name), members=tuple(members))
        for name, members in by_wave.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """Where the rollout stands among its waves.

    Attributes:
        index: of the wave whose turn it is; equal to the number of waves when all are over.
        state: of that wave.
        reason: with message, why no node of it is started although some are left; empty message when they are.
        until: end of the soak, while it lasts.
        pending: nodes that may be started as far as waves are concerned, in order.
    """

    index: int
    state: WaveState = WaveState.RUNNING
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    until: datetime | None = None
    pending: tuple[NodeState, ...] = ()


def front(upgrade: Upgrade, waves: Sequence[WaveRoster], now: datetime) -> Front:
    """Find the wave whose turn it is.

    A wave that has begun stays open. Nodes of earlier waves that were skipped and have become able are taken with it,
    first, and the next wave waits for them.
    """
    reached = max((index for index, wave in enumerate(waves) if wave.begun), default=-1)
    if not all(wave.over for wave in waves[: reached + 1]):
        return _running(waves, reached)
    following = next((index for index in range(reached + 1, len(waves)) if not waves[index].over), None)
    if following is None:
        return Front(index=len(waves), state=WaveState.COMPLETED)
    if reached >= 0 and (until := soak_until(waves[reached])) is not None and now < until:
        message = sentence(Reason.SOAKING, f"wave {waves[reached].name} soaks until {timestamp(until)}")
        return Front(index=reached, state=WaveState.SOAKING, reason=Reason.SOAKING, message=message, until=until)
    if needs_approval(upgrade, waves[following].terms):
        message = sentence(Reason.AWAITING_APPROVAL, f"wave {waves[following].name} waits for approval")
        state, reason = WaveState.AWAITING_APPROVAL, Reason.AWAITING_APPROVAL
        return Front(index=following, state=state, reason=reason, message=message)
    return _running(waves, following)


def soak_until(wave: WaveRoster) -> datetime | None:
    """Return when a wave that is over has rested: its soak after the last verdict; None if no node was started."""
    verdicts = (member.task.verdict for member in wave.members if member.task is not None)
    decided = [verdict.decided_at for verdict in verdicts if verdict is not None and verdict.decided_at is not None]
    return max(decided) + wave.terms.soak if decided else None


def needs_approval(upgrade: Upgrade, wave: Wave) -> bool:
    """Whether a wave may not begin before somebody approves it."""
    return wave.approval is ApprovalPolicy.MANUAL and approved_by(upgrade, wave.name) is None


def state_of(waves: Sequence[WaveRoster], index: int, at: Front) -> WaveState:
    """Say where one wave is; what is ahead is pending even if nothing is to be done there."""
    if index == at.index:
        return at.state
    if index > at.index:
        return WaveState.PENDING
    return WaveState.COMPLETED if waves[index].over else WaveState.RUNNING


def _running(waves: Sequence[WaveRoster], index: int) -> Front:
    members = [member for wave in waves[: index + 1] for member in wave.members]
    pending = tuple(member for member in members if member.place is Place.PENDING)
    if pending:
        return Front(index=index, pending=pending)
    blocking = [member for member in members if member.place is Place.REFUSED and member.blocks]
    if not blocking:
        return Front(index=index)
    more = f" (and {counted(len(blocking) - 1, 'more node')})" if len(blocking) > 1 else ""
    message = f"wave {waves[index].name} waits: {blocking[0].message}{more}"
    return Front(index=index, reason=blocking[0].reason, message=message)
