"""Tests the status of a task whose node was refused or whose run failed, within the limits of the API."""

from dataclasses import replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import GuardReport, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.journal.journal import Journal, Mark
from nodeupgrade.node.task_status.run_status import run_status
from nodeupgrade.node.task_status.task_status import (
    failed_status,
    refusal_status,
    stranded_status,
    unreadable_status,
    with_readiness,
)
from nodeupgrade.node.verification.readiness_flaps import Flaps
from tests.builders.run_journal import BACK, CAUSE, CONFIRMED, ENDED, ONE_STEP, PLAN, STARTED, journal


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
    warning = Finding(reason=Reason.READINESS_PROBE_FAILING, detail="y" * 600)

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
    warnings = tuple(Finding(reason=Reason.READINESS_PROBE_FAILING, detail="y") for _ in range(25))

    assert [hazard.warning for hazard in refusal_status("run", refusals + warnings).hazards] == 10 * [False] + 10 * [
        True
    ]


@pytest.mark.parametrize(
    ("seen", "phase", "reason", "told"),
    [
        (journal(*ONE_STEP), TaskPhase.FAILED, Reason.INTERNAL_ERROR, "the node is untouched"),
        (
            journal(*ONE_STEP, (Step.STOP_KUBELET, Mark.DOING)),
            TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED.remedy,
        ),
    ],
)  # fmt: skip
def test_an_executor_that_stopped(seen: Journal, phase: TaskPhase, reason: Reason, told: str) -> None:
    status = stranded_status("run", PLAN, seen, "the executor stopped: record 3 is missing")

    assert (status.phase, status.reason) == (phase, reason)
    assert status.message == f"the executor stopped: record 3 is missing; {told}"
    assert status.steps[0] == CONFIRMED


def test_a_run_that_cannot_be_read_is_taken_for_the_worst() -> None:
    status = unreadable_status("run", "record 1 is damaged")

    assert (status.phase, status.reason) == (TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED)
    assert "record 1 is damaged" in status.message


LONG = "x" * 2000
NAMES = tuple(f"{'n' * 63}/{'p' * 250}-{number}/{'c' * 63}" for number in range(20))
LENGTHY = journal(
    *((step, Mark.DOING) for step in Step),
    *((step, Mark.UNDO_FAILED, LONG, Reason.STEP_FAILED) for step in Step),
    report=replace(BACK, message=CAUSE, restarted=20, listed=NAMES),
)


@pytest.mark.parametrize(
    "status",
    [
        run_status("run", PLAN, LENGTHY),
        run_status("run", PLAN, Journal(LENGTHY.records[:-1])),
        refusal_status("run", tuple(Finding(reason=Reason.INTERNAL_ERROR, detail=LONG) for _ in range(30))),
        stranded_status("run", PLAN, LENGTHY, LONG),
        unreadable_status("run", LONG),
    ],
)
def test_the_limits_of_the_api_are_kept(status: TaskStatus) -> None:
    assert 0 < len(status.message) <= 512
    assert len(status.steps) <= 32
    assert all(len(step.detail or "") <= 128 for step in status.steps)
    assert len(status.hazards) <= 20
    assert all(len(hazard.detail) <= 512 for hazard in status.hazards)
    assert len(status.containers.restarted_list) <= 20


def test_what_to_do_survives_a_long_cause() -> None:
    for status in (stranded_status("run", PLAN, LENGTHY, LONG), unreadable_status("run", LONG)):
        assert f"; {Reason.ROLLBACK_FAILED.remedy}" in status.message


def unready(*names: str) -> Flaps:
    running = {"containerStatuses": [{"name": "web", "state": {"running": {}}}]}
    metadata = [dict(zip(("namespace", "name"), name.split("/"), strict=True)) for name in names]
    pods = {name: parse_pod({"metadata": each, "status": running}) for name, each in zip(names, metadata, strict=True)}
    return Flaps(pods, frozenset(names))


def test_what_is_unready_in_the_end_is_never_cut_off() -> None:
    status = failed_status("run", Reason.STEP_FAILED, "x" * 600)
    flaps = unready(*(f"default/web-{number}" for number in range(30)))

    told = with_readiness(status, flaps, GuardReport(detail="d" * 250), "pods cannot be watched")

    assert told.message.endswith(
        "x; unready although their containers run on: default/web-0, default/web-1, default/web-10 and 27 more"
    )
    assert len(told.message) == 512
    assert len(told.containers.readiness_flaps) == 20
    assert 250 < len(told.guard.detail) <= 256
    assert with_readiness(told, flaps, GuardReport(), "").message == told.message, "it is said once"


def test_after_a_success_it_is_said_who_was_unready_for_a_while() -> None:
    status = run_status("run", PLAN, journal(*STARTED, report=ENDED))
    was = Flaps(flapped=frozenset({"default/web"}))

    told = with_readiness(status, was, GuardReport(), "")

    assert told.message == f"{status.message}; reported unready meanwhile: default/web"


def test_a_run_under_way_does_not_complain_of_what_may_pass() -> None:
    status = run_status("run", PLAN, journal(*STARTED))
    assert with_readiness(status, unready("default/web"), GuardReport(), "").message == status.message
