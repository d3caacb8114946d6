"""The rollouts of several clusters: which of them matter, and whether all is well."""

from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.status import ConditionType
from nodeupgrade.cli.reports.overview import Overview


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReport:
    """The rollouts of one cluster, or why they are not known."""

    context: str
    rollouts: tuple[Overview, ...] = ()
    error: str = ""
    silent: bool = False  # the cluster did not answer, or denies access

    @property
    def shown(self) -> tuple[Overview, ...]:
        """Those that have not ended, and what is newer than the newest that succeeded; if none, this one."""
        ordered = sorted(self.rollouts, key=_age_and_name)
        done = max((at for at, each in enumerate(ordered) if _is_done(each)), default=-1)
        return tuple(each for at, each in enumerate(ordered) if at > done or not each.ended) or tuple(ordered[done:])

    @property
    def well(self) -> bool:
        """Whether nobody has to act."""
        return not self.error and not any(needs_a_person(each) for each in self.shown)

    def document(self) -> Json:
        """Return it as JSON, with all rollouts; of nodes in flight the names alone are known."""
        rollouts = [{**each.document(), "inFlight": list(each.status.flying)} for each in self.rollouts]
        return {"context": self.context, "error": self.error or None, "rollouts": rollouts}


def _age_and_name(rollout: Overview) -> tuple[float, str]:
    created = rollout.upgrade.created_at
    return created.timestamp() if created else 0.0, rollout.upgrade.name


def _is_done(rollout: Overview) -> bool:
    return rollout.ended and rollout.status.holds(ConditionType.SUCCEEDED)


def needs_a_person(rollout: Overview) -> bool:
    """Report whether a rollout stalls, has nodes that failed or were refused, or ended without success."""
    counts = rollout.status.counts
    return rollout.stalled or bool(counts.all_failed + counts.refused) or (rollout.ended and not rollout.succeeded)
