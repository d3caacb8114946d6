"""Failures on record of which no member of the rollout tells any more: its Node or its task is gone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodeupgrade.api.task.spec import Verdict
from nodeupgrade.api.upgrade.status import NodeFailure, UnlistedFailures, UpgradeStatus
from nodeupgrade.domain.rollout.failures import FAILURES, NONE, kept, next_look, uid_kept, wave_kept
from nodeupgrade.domain.rollout.node_state import NodeState, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """Such failures, of a rollout or of one wave."""

    listed: tuple[NodeFailure, ...] = ()  # those whose nodes are known
    more: UnlistedFailures = NONE  # how many others there are

    @property
    def total(self) -> int:
        """Number of nodes."""
        return len(self.listed) + self.more.refused + self.more.failed

    @property
    def failed(self) -> int:
        """Number of nodes that count against the failure threshold."""
        return sum(each.outcome in FAILURES for each in self.listed) + self.more.failed

    @property
    def refused(self) -> int:
        """Number of nodes that were refused."""
        return self.of(Verdict.REFUSED) + self.more.refused

    @property
    def restarted(self) -> int:
        """Number of containers that were restarted, as far as it is known."""
        return sum(each.restarted or 0 for each in self.listed) + self.more.restarted

    @property
    def unknown(self) -> int:
        """Number of nodes of which it is not known what was restarted."""
        return sum(each.restarted is None for each in self.listed) + self.more.unknown

    def of(self, outcome: Verdict) -> int:
        """Return how many of the nodes that are known had this verdict."""
        return sum(each.outcome is outcome for each in self.listed)


NOBODY = Departed()


def departed(status: UpgradeStatus, members: Iterable[NodeState]) -> Mapping[str, Departed]:
    """Return these failures by wave."""
    record = kept(status)
    if not record.listed and not record.more:
        return {}
    listed = {each.uid for each in record.listed}
    present, numbered = set[str](), Counter[tuple[str, str]]()
    for member in members:
        if member.record is not None:
            present.add(member.record.uid)
        elif (task := member.task) is not None and (verdict := task.verdict) is not None:
            uid = uid_kept(task.spec.node_uid)
            present.add(uid)
            if uid in listed or member.place is Place.IN_FLIGHT or next_look(task) is not None:
                continue
            if verdict.outcome in FAILURES or verdict.outcome is Verdict.REFUSED:
                unknown = bool(task.reported.containers.unknown) and not verdict.restarted
                wave = wave_kept(task.spec.wave)
                numbered[wave, "failed" if verdict.outcome in FAILURES else "refused"] += 1
                numbered[wave, "restarted"] += verdict.restarted
                numbered[wave, "unknown"] += unknown
    gone = [each for each in record.listed if not each.uid or each.uid not in present]
    waves = {*map(wave_kept, (each.wave for each in gone)), *record.more}
    return {
        wave: Departed(
            listed=tuple(each for each in gone if wave_kept(each.wave) == wave),
            more=_others(wave, record.more.get(wave, NONE), numbered),
        )
        for wave in sorted(waves)
    }


def _others(wave: str, numbers: UnlistedFailures, present: Counter[tuple[str, str]]) -> UnlistedFailures:
    """Return the numbers without the nodes whose tasks still tell of them."""
    return UnlistedFailures(
        refused=max(0, numbers.refused - present[wave, "refused"]),
        failed=max(0, numbers.failed - present[wave, "failed"]),
        restarted=max(0, numbers.restarted - present[wave, "restarted"]),
        unknown=max(0, numbers.unknown - present[wave, "unknown"]),
    )


def together(parts: Iterable[Departed]) -> Departed:
    """Return the failures of several waves as one."""
    every = tuple(parts)
    return Departed(
        listed=tuple(each for part in every for each in part.listed),
        more=UnlistedFailures(
            refused=sum(part.more.refused for part in every),
            failed=sum(part.more.failed for part in every),
            restarted=sum(part.more.restarted for part in every),
            unknown=sum(part.more.unknown for part in every),
        ),
    )
