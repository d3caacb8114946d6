"""What a task's status says of a node that was refused."""

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.task_status.task_status import refusal_status


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


def test_pods_with_one_remedy_are_one_hazard_that_says_whose_they_are() -> None:
    findings = tuple(
        Finding(
            reason=Reason.POD_WOULD_NOT_BE_ADMITTED,
            check="sysctls_are_allowed",
            subject=f"ns/pod{number}",
            owner=f"Deployment ns/d{number // 2}",
            detail=f"it sets {number}",
        )
        for number in range(25)
    )

    [hazard] = refusal_status("run", findings).hazards

    assert (hazard.pod, hazard.detail, hazard.pods) == ("ns/pod0", "it sets 0", 25)
    assert hazard.others == tuple(f"ns/pod{number}" for number in range(1, 9))
    assert [(owner.name, owner.pods) for owner in hazard.owners] == [(f"Deployment ns/d{n}", 2) for n in range(8)]


def test_of_many_warnings_half_have_room() -> None:
    refusals = tuple(Finding(reason=Reason.UNKNOWN_CONTAINER, detail="x") for _ in range(25))
    warnings = tuple(Finding(reason=Reason.PROBE_FAILS, detail="y") for _ in range(25))

    assert [hazard.warning for hazard in refusal_status("run", refusals + warnings).hazards] == 10 * [False] + 10 * [
        True
    ]
