"""Waves: the state of each, which wave is the current one, and what the next one waits for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from nodeupgrade.api.json import timestamp
from nodeupgrade.api.limits import APPROVER_LENGTH
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, Upgrade
from nodeupgrade.api.upgrade.status import NodeFailure, WaveState, WaveStatus
from nodeupgrade.api.upgrade.waves import REMAINDER, ApprovalPolicy, Wave
from nodeupgrade.api.values import NodeName, Verdict
from nodeupgrade.api.wording import counted, sentence
from nodeupgrade.fleet.decide.ledger import Ledger
from nodeupgrade.fleet.decide.node_state import NodeState, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveRoster:
    """A wave, the state of its nodes, and the failures of those that are gone or were replaced."""

    terms: Wave
    members: tuple[NodeState, ...]
    departed: tuple[NodeFailure, ...] = ()
    before: WaveStatus | None = None  # its status so far, which stays true when its nodes are gone
    unproven: str = ""  # name of the last wave with nodes before it if none of them runs the target; else empty
    approved_by: str | None = None  # what approved it: the field, the annotation's writer, or else the annotation

    @property
    def name(self) -> str:
        """Name of the wave."""
        return self.terms.name

    @property
    def needs_approval(self) -> bool:
        """Whether it needs an approval: its policy says so, or the wave before it has proved nothing."""
        return self.terms.approval is ApprovalPolicy.MANUAL or bool(self.unproven)

    @property
    def awaits_approval(self) -> bool:
        """Whether it needs an approval that it does not have yet."""
        return self.needs_approval and self.approved_by is None

    @property
    def over(self) -> bool:
        """Whether each of its nodes is finished, skipped or permanently refused."""
        return not any(member.holds_wave for member in self.members)

    @property
    def begun(self) -> bool:
        """Whether the upgrade of one of its nodes was started; one that failed in another wave did not begin this."""
        recorded = self.before is not None and self.before.started_at is not None
        here = (member for member in self.members if member.record is None or member.record.wave == self.name)
        return recorded or bool(self.departed) or any(member.upgrade_begun for member in here)

    @property
    def last_verdict(self) -> datetime | None:
        """When the last of its nodes was finished, and gave its slot back, as far as that is known; None if none was.

        Nodes that are refused again and again are not touched, and prolong no soak.
        """
        refused = (member.task for member in self.members if not member.lingers and member.place is not Place.IN_FLIGHT)
        return max(filter(None, (self.last_touched, *_decided(refused))), default=None)

    @property
    def last_touched(self) -> datetime | None:
        """The same without nodes that were refused. It is on record, since nodes and their tasks may be gone."""
        done = (member.task for member in self.members if member.place is not Place.IN_FLIGHT)
        touched = (task for task in done if task and task.verdict and task.verdict.outcome is not Verdict.REFUSED)
        gone = (failure.time for failure in self.departed)
        before = None if self.before is None else self.before.last_verdict_at
        return max(filter(None, (*_decided(touched), *gone, before)), default=None)

    @property
    def total(self) -> int:
        """Number of its nodes, including those that failed and are gone."""
        return len(self.members) + len(self.departed)


def _decided(tasks: Iterable[Task | None]) -> Iterable[datetime | None]:
    return (task.verdict.decided_at for task in tasks if task is not None and task.verdict is not None)


def rosters(
    ledger: Ledger, waves: Sequence[Wave], members: Mapping[NodeName, NodeState], departed: Sequence[NodeFailure]
) -> tuple[WaveRoster, ...]:
    """Group members by wave, in order; the remainder is included if it has nodes or if there is no other wave.

    Failures of a wave that does not exist count for the remainder.
    """
    upgrade, terms = ledger.upgrade, {wave.name: wave for wave in waves}
    by_wave: dict[str, list[NodeState]] = {wave.name: [] for wave in waves}
    gone: dict[str, list[NodeFailure]] = {}
    before = {wave.name: wave for wave in upgrade.status.waves}
    for member in members.values():
        by_wave.setdefault(member.wave, []).append(member)
    for failure in departed:
        gone.setdefault(failure.wave if failure.wave in terms else REMAINDER, []).append(failure)
    if not waves or REMAINDER in gone:
        by_wave.setdefault(REMAINDER, [])
    made, unproven = list[WaveRoster](), ""
    for name, states in by_wave.items():
        wave = WaveRoster(
            terms=terms.get(name) or Wave(name=name),
            members=tuple(states),
            departed=tuple(gone.get(name, ())),
            before=before.get(name),
            unproven=unproven,
            approved_by=_approved_by(upgrade, name),
        )
        made.append(wave)
        if wave.total:
            unproven = "" if any(member.at_target for member in states) else name
    return tuple(made)


def _approved_by(upgrade: Upgrade, wave: str) -> str | None:
    if upgrade.spec is not None and wave in upgrade.spec.approved_waves:
        return "spec.approvedWaves"
    if wave in upgrade.approvals:
        return upgrade.approvals[wave][:APPROVER_LENGTH] or APPROVE_ANNOTATION
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WavePosition:
    """The current position of a rollout in its sequence of waves."""

    index: int  # index of the current wave; equal to the number of waves when all are over
    state: WaveState = WaveState.RUNNING  # state of that wave
    # why none of its nodes may be started although some are left; applies if ``message`` is not empty
    reason: Reason = Reason.PROGRESSING
    message: str = ""
    until: datetime | None = None  # end of the soak; None unless the wave soaks
    pending: tuple[NodeState, ...] = ()  # nodes that may be started as far as waves are concerned, in upgrade order


def wave_position(waves: Sequence[WaveRoster], now: datetime) -> WavePosition:
    """Return the current wave.

    A wave that has begun stays open. Nodes of earlier waves that were skipped and can be upgraded now come first in it,
    and the next wave waits for them. An earlier wave that had no nodes so far opens only once it is approved, if it
    needs that.
    """
    reached = max((index for index, wave in enumerate(waves) if wave.begun), default=-1)
    opened = [wave for wave in waves[: reached + 1] if wave.begun or not wave.awaits_approval]
    if not all(wave.over for wave in opened):
        return _running(opened, reached)
    following = next((index for index, wave in enumerate(waves) if not wave.over), None)
    if following is None:
        return WavePosition(index=len(waves), state=WaveState.COMPLETED)
    if reached >= 0 and (until := soak_until(waves[reached])) is not None and now < until:
        message = sentence(Reason.SOAKING, f"wave {waves[reached].name} soaks until {timestamp(until)}")
        return WavePosition(index=reached, state=WaveState.SOAKING, reason=Reason.SOAKING, message=message, until=until)
    if (wave := waves[following]).awaits_approval:
        why = f": no node of wave {wave.unproven} was upgraded" if wave.unproven else ""
        message = sentence(Reason.AWAITING_APPROVAL, f"wave {wave.name} waits for approval{why}")
        state, reason = WaveState.AWAITING_APPROVAL, Reason.AWAITING_APPROVAL
        return WavePosition(index=following, state=state, reason=reason, message=message)
    return _running(waves[: following + 1], following)


def soak_until(wave: WaveRoster) -> datetime | None:
    """Return when the soak of a completed wave ends, counted from its last verdict; None if it has no verdict."""
    return None if (last := wave.last_verdict) is None else last + wave.terms.soak


def _running(opened: Sequence[WaveRoster], index: int) -> WavePosition:
    members = [member for wave in opened for member in wave.members]
    pending = tuple(member for member in members if member.place is Place.PENDING)
    if pending:
        return WavePosition(index=index, pending=pending)
    blocking = [member for member in members if member.place in {Place.REFUSED, Place.HELD} and member.holds_wave]
    if not blocking:
        return WavePosition(index=index)
    more = f" (and {counted(len(blocking) - 1, 'more node')})" if len(blocking) > 1 else ""
    message = f"wave {opened[-1].name} waits: {blocking[0].message}{more}"
    return WavePosition(index=index, reason=blocking[0].reason, message=message)
