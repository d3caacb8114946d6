"""Which step a run came to before it went back, told from the steps as a task reports them."""

import pytest

from nodeupgrade.api.task.status import StepResult, StepStatus, TaskStatus

CAUSE = "the kubelet exits right after its start"
NAMES = ("confirm-binaries", "stop-kubelet", "start-kubelet")


@pytest.mark.parametrize(
    ("results", "causes", "step"),
    [
        ((StepResult.UNDONE,) * 3, (CAUSE,) * 3, "start-kubelet"),  # every step that is undone carries the cause
        ((StepResult.DONE, StepResult.DONE, StepResult.UNDOING), (None, None, CAUSE), "start-kubelet"),
        ((StepResult.DONE, StepResult.FAILED, StepResult.UNDONE), (None, "it is busy", CAUSE), "stop-kubelet"),
        ((StepResult.DONE,) * 3, (None,) * 3, ""),
    ],
)
def test_the_step_that_a_run_came_to(
    results: tuple[StepResult, ...], causes: tuple[str | None, ...], step: str
) -> None:
    told = (StepStatus(name=n, result=r, detail=c) for n, r, c in zip(NAMES, results, causes, strict=True))
    assert TaskStatus(steps=tuple(told)).failed_step == step
