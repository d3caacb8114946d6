"""IDs of runs, which encode the kind of a run and the attempt. No other module parses them."""

from datetime import UTC, datetime

from nodeupgrade.api.values import RunId, RunKind
from nodeupgrade.text import number

_PRECHECK = "-plan"


def new_run_id(upgrade_uid: str, now: datetime) -> RunId:
    """Return the ID for a new run of a NodeUpgrade."""
    return RunId(f"{_prefix(upgrade_uid)}{now:%Y%m%d%H%M%S}")


def began_at(run: RunId) -> datetime | None:
    """Return when a run was started, or its node claimed for it; None if the ID has another form."""
    try:
        return datetime.strptime(run[9:23], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def is_run_of(upgrade_uid: str, run: RunId) -> bool:
    """Report whether a run, or an attempt at one, is of this NodeUpgrade."""
    return run.startswith(_prefix(upgrade_uid))


def _prefix(upgrade_uid: str) -> str:
    return f"{upgrade_uid[:8]}-"


def of_kind(run: RunId, kind: RunKind) -> RunId:
    """Return the ID of a new run, marked with its kind."""
    return RunId(f"{run}{_PRECHECK}") if kind is RunKind.PRECHECK else run


def kind_of(run: str) -> RunKind:
    """Return the kind of a run, or of the run that a slot was taken for."""
    return RunKind.PRECHECK if run.endswith(_PRECHECK) else RunKind.UPGRADE


def attempt_of(run: RunId, number: int) -> RunId:
    """Return the ID of one attempt at a task's run, counted from 1; the node stores plan and journal under it."""
    return RunId(f"{run}.{number}")


def task_run(attempt: RunId) -> RunId:
    """Return the run that an attempt belongs to."""
    return RunId(attempt.rpartition(".")[0])


def attempt_number(attempt: RunId) -> int:
    """Return which attempt at its run this is; 0 for an ID of another form."""
    return number(attempt.rpartition(".")[2]) or 0
