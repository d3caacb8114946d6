"""What a rollout must come to once nothing disturbs it any more: an end, or a status that says what it waits for."""

from collections.abc import Iterator
from typing import Protocol

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.status import TaskPhase
from tests.model.adapter import has_ended, is_abandoned, is_agent, slots
from tests.model.state import State

WAITS = frozenset({"Stalled", "Paused", "AwaitingApproval", "WaitingForWindow", "Pending", "Planned"})
"""Phases that say what is waited for."""


def silent(state: State) -> Iterator[str]:
    """Yield what is wrong about a state in which nothing happens any more."""
    active = [upgrade for upgrade in state.all("nodeupgrades") if not is_over(upgrade)]
    queued = [upgrade for upgrade in active if waits_for_others(upgrade)]
    for upgrade in active:
        name, phase = upgrade["metadata"]["name"], phase_of(upgrade)
        if upgrade in queued:
            if len(queued) == len(active) and not awaits_a_person(state, upgrade):
                yield f"{name} waits for another rollout, and each of them waits: {reason_of(upgrade)}"
        elif phase not in WAITS and not holds(upgrade, "Stalled", "Impeded") and not names_a_cordon(upgrade):
            yield f"{name} is {phase or 'not looked at'}, and nothing happens any more"


def waits_for_others(upgrade: Json) -> bool:
    """Report whether the status says that another rollout holds this one up."""
    return _reconciling(upgrade).get("reason") in {"Queued", "OverlapConflict"}


def awaits_a_person(state: State, upgrade: Json) -> bool:
    """Report whether another NodeUpgrade, though it has ended or is gone, holds a node until a person acts.

    That could not be rolled back; or its run was begun, and no agent will say how it ended.
    """
    present = {each["metadata"]["uid"] for each in state.all("nodeupgrades")}
    reporting = {pod["spec"]["nodeName"] for pod in state.all("pods") if is_agent(pod) and not has_ended(pod)}
    others = [t for t in state.all("nodeupgradetasks") if t["spec"]["upgradeRef"]["uid"] != upgrade["metadata"]["uid"]]
    return any(
        _outcome(task) == "RollbackFailed"
        or _phase(task) is TaskPhase.ROLLBACK_FAILED
        or (
            task["spec"]["upgradeRef"]["uid"] not in present
            and task["spec"]["action"] not in {"Wait", "Release"}
            and task["metadata"]["name"] not in reporting
            and not _outcome(task)
            and not _phase(task).terminal
        )
        for task in others
    )


def _outcome(task: Json) -> str:
    """Return the outcome of the run that the spec names; empty if there is no verdict on it."""
    verdict = task["spec"].get("verdict") or {}
    return str(verdict["outcome"]) if verdict.get("runID") == task["spec"]["runID"] else ""


def _phase(task: Json) -> TaskPhase:
    """Return the phase that was reported of the run that the spec names."""
    status = task.get("status") or {}
    own = status.get("runID") == task["spec"]["runID"]
    return TaskPhase(status.get("phase", TaskPhase.PENDING)) if own else TaskPhase.PENDING


def is_over(upgrade: Json) -> bool:
    """Report whether a rollout has ended, and holds no slot."""
    ended = "completedAt" in (upgrade.get("status") or {})
    return (ended and not slots(upgrade)) or is_abandoned(upgrade)


def phase_of(upgrade: Json) -> str:
    """Return the phase in the status."""
    return str((upgrade.get("status") or {}).get("phase", ""))


def reason_of(upgrade: Json) -> str:
    """Return what the status says about its state."""
    return str(_reconciling(upgrade).get("message", ""))


def holds(upgrade: Json, *kinds: str) -> bool:
    """Report whether one of these conditions is True."""
    return any(each["type"] in kinds and each["status"] == "True" for each in _conditions(upgrade))


def names_a_cordon(upgrade: Json) -> bool:
    """Report whether a wave waits until a person has removed a cordon, as its status says."""
    return _reconciling(upgrade).get("reason") == "CordonLeftBehind"


def _reconciling(upgrade: Json) -> Json:
    return next((each for each in _conditions(upgrade) if each["type"] == "Reconciling"), {})


def _conditions(upgrade: Json) -> list[Json]:
    return (upgrade.get("status") or {}).get("conditions") or []


CIRCLES, MOST_PASSES = "it goes round in circles", 400


def comes_to_rest(model: "Settling", state: State, good: set[bytes]) -> str:
    """Let everything that happens by itself happen, each in its turn; return what is wrong about where it leads.

    ``good`` are states that are known to come to rest; those of this way are added if they do.
    """
    seen, written_at = dict[bytes, int](), -1
    for number in range(MOST_PASSES):
        if state.key in good:
            break
        if state.key in seen:
            if written_at >= seen[state.key]:
                return CIRCLES
            if problem := next(silent(state), ""):  # it looks again and again, and writes nothing
                return problem
            break
        seen[state.key] = number
        after = model.one_pass(state)
        if after is None:
            if problem := next(silent(state), ""):
                return problem
            break
        state, wrote = after
        written_at = number if wrote else written_at
    else:
        return f"it has not come to rest after {MOST_PASSES} passes"
    good |= set(seen)
    return ""


class Settling(Protocol):
    """What can let everything happen once that happens by itself."""

    def one_pass(self, state: State) -> tuple[State, bool] | None:
        """Return the state after everything had its turn, or after the time until something is due, and whether
        anything was written; None at rest.
        """
        ...
