"""Identifiers of runs: what a run is for, and which attempt at it. Nothing else looks into them."""

from datetime import datetime
from enum import StrEnum

from nodeupgrade.api.values import RunId

_PRECHECK = "-plan"


class RunKind(StrEnum):
    """What a run is for. Its identifier says so, and it stays so whatever happens to the task's action."""

    UPGRADE = "Upgrade"
    PRECHECK = "Precheck"
    """It only looks, for ``action: Plan``."""


def new_run_id(upgrade_uid: str, now: datetime) -> RunId:
    """Name a run of a NodeUpgrade that is decided upon now."""
    return RunId(f"{upgrade_uid[:8]}-{now:%Y%m%d%H%M%S}")


def of_kind(run: RunId, kind: RunKind) -> RunId:
    """Mark a run as one of a kind."""
    return RunId(f"{run}{_PRECHECK}") if kind is RunKind.PRECHECK else run


def kind_of(run: RunId) -> RunKind:
    """Tell what a run is for."""
    return RunKind.PRECHECK if run.endswith(_PRECHECK) else RunKind.UPGRADE


def attempt_of(run: RunId, number: int) -> RunId:
    """The name of one attempt at a task's run, counted from 1: under it the node keeps plan and journal."""
    return RunId(f"{run}.{number}")


def task_run(attempt: RunId) -> RunId:
    """The run of the task that an attempt belongs to."""
    return RunId(attempt.rpartition(".")[0])
