"""What a task's status says of a node that was refused."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.run.task_report import refusal_status


def test_a_refusal_tells_the_first_and_lists_the_rest() -> None:
    findings = tuple(
        Finding(reason=Reason.STORED_HASH_NOT_REPRODUCED, subject=f"ns/pod{number}/c", detail="it differs")
        for number in range(25)
    )

    status = refusal_status("run", findings)

    assert (status.phase, status.reason) == (TaskPhase.REFUSED, Reason.STORED_HASH_NOT_REPRODUCED)
    assert status.message == (
        "node untouched: ns/pod0/c: it differs; ns/pod1/c: it differs; ns/pod2/c: it differs; and 22 more"
    )
    assert [hazard.pod for hazard in status.hazards] == [f"ns/pod{number}/c" for number in range(20)]


def test_warnings_are_never_crowded_out() -> None:
    findings = tuple(Finding(reason=Reason.UNKNOWN_CONTAINER, detail="x") for _ in range(25))
    warning = Finding(reason=Reason.PROBE_FAILS, detail="y" * 600)

    status = refusal_status("run", (*findings, warning))

    assert [hazard.warning for hazard in status.hazards] == 19 * [False] + [True]
    assert (status.reason, len(status.hazards[-1].detail)) == (Reason.UNKNOWN_CONTAINER, 512)
