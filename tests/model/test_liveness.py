"""What the checker takes for a wait that a person must end, and what for one that nothing ever ends."""

import json
from collections.abc import Callable

import pytest

from nodeupgrade.api.json import Json
from tests.model.canonical import Key, interned
from tests.model.liveness import comes_to_rest, silent, waits_for_others
from tests.model.state import State, make_state
from tests.model.steps import Model
from tests.model.story import replayed
from tests.model.worlds import TWO

TO_THE_HANDOVER = (
    *["reconcile first-1"] * 5,
    *["reconcile node-0 of first-1"] * 3,
    "the agent on node-0 starts",
    "the agent on node-0 reports Staging",
    "the agent on node-0 hands over",
)
ABANDONED = "somebody abandons and deletes NodeUpgrade first-1"
TASK: Key = ("nodeupgradetasks", None, "node-0")
AGENT: Key = ("pods", "nodeupgrade-system", "nodeupgrade-agent-node-0")
EARLIER = "u01i00zz-20240101000001"
DECIDED = {"outcome": "Failed", "reason": "Timeout", "decidedAt": "2026-01-01T00:00:00Z", "restarted": 0}


@pytest.fixture(scope="module")
def waiting() -> State:
    """Return the state in which second-2 waits for a run that was abandoned, and whose agent has died."""
    model = Model(TWO)
    state = replayed(model, (*TO_THE_HANDOVER, "the agent on node-0 dies", ABANDONED))[-1].state
    assert not comes_to_rest(model, state, set())
    for _ in range(10):
        state, _ = model.one_pass(state) or (state, False)
    assert [each["metadata"]["name"] for each in state.all("nodeupgrades") if waits_for_others(each)] == ["second-2"]
    return state


def changed(state: State, key: Key, change: Callable[[Json], object]) -> State:
    """Return a state with another version of one object."""
    body = json.loads(state.objects[key].text)
    change(body)
    return make_state({**state.objects, key: interned(key, json.dumps(body, sort_keys=True))}, state.memory)


def own(task: Json) -> str:
    """Return the run of a task."""
    return str(task["spec"]["runID"])


@pytest.mark.parametrize(
    ("key", "change"),
    [
        pytest.param(AGENT, lambda pod: pod["status"].update(phase="Failed"), id="its agent has failed"),
        pytest.param(AGENT, lambda pod: pod["status"].update(phase="Succeeded"), id="its agent has ended"),
        pytest.param(
            TASK, lambda task: task["status"].update(phase="RollbackFailed"), id="it could not be rolled back"
        ),
        pytest.param(
            TASK, lambda task: task["status"].update(phase="Failed", runID=EARLIER), id="only an earlier run has ended"
        ),
        pytest.param(
            TASK,
            lambda task: task["spec"].update(verdict={**DECIDED, "runID": EARLIER}),
            id="an earlier run was judged",
        ),
    ],
)
def test_a_person_ends_a_run_that_nobody_reports(waiting: State, key: Key, change: Callable[[Json], object]) -> None:
    assert [*silent(changed(waiting, key, change))] == []


@pytest.mark.parametrize(
    ("key", "change"),
    [
        pytest.param(AGENT, lambda pod: pod["status"].update(phase="Running"), id="an agent is at work"),
        pytest.param(AGENT, lambda pod: pod["status"].update(phase="Pending"), id="an agent is to start"),
        pytest.param(TASK, lambda task: task["status"].update(phase="RolledBack"), id="its run has ended"),
        pytest.param(
            TASK, lambda task: task["spec"].update(verdict={**DECIDED, "runID": own(task)}), id="its run was judged"
        ),
        pytest.param(TASK, lambda task: task["spec"].update(action="Release"), id="it was given back"),
        pytest.param(TASK, lambda task: task["spec"].update(action="Wait"), id="it is a claim"),
        pytest.param(
            TASK,
            lambda task: (
                task["status"].update(phase="RollbackFailed", runID=EARLIER)
                or task["spec"].update(verdict={**DECIDED, "runID": own(task)})
            ),
            id="only an earlier run could not be rolled back",
        ),
    ],
)
def test_what_is_over_or_will_end_is_no_wait_for_a_person(
    waiting: State, key: Key, change: Callable[[Json], object]
) -> None:
    (problem,) = silent(changed(waiting, key, change))
    assert problem.startswith("second-2 waits for another rollout, and each of them waits")
