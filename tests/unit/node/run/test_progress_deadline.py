"""How long each step may show no progress."""

from nodeupgrade.api.task.step import Step
from nodeupgrade.node.plan.plan import Limits
from nodeupgrade.node.rescue.timeouts import hung_seconds
from nodeupgrade.node.run.progress_deadline import longest_silence, seconds_without_progress

LIMITS = Limits()
NOT_READY_SECONDS = 40.0
"""The grace period of control planes before 1.32; later it is longer."""
WAITS_FOR_SYSTEMD = {Step.STOP_KUBELET, Step.REWRITE_HASHES, Step.RESTART_RUNTIME}


def test_without_a_kubelet_only_what_waits_for_systemd_may_be_silent_for_long() -> None:
    steps = tuple(Step)
    for step in steps[steps.index(Step.STOP_KUBELET) : steps.index(Step.START_KUBELET) + 1]:
        short = seconds_without_progress(step, LIMITS) < NOT_READY_SECONDS
        assert short is (step not in WAITS_FOR_SYSTEMD), step


def test_nothing_may_be_silent_for_longer_than_the_rescue_script_waits() -> None:
    assert (
        max(seconds_without_progress(step, LIMITS) for step in Step) == longest_silence(LIMITS) == hung_seconds(LIMITS)
    )
