"""Whatever state a rollout is in, a change is made once: after it, there is nothing left to do."""

import itertools
from collections.abc import Callable

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import Upgrade, parse_upgrade
from nodeupgrade.cli import changes
from nodeupgrade.cli.changes import Change
from nodeupgrade.cli.program import CannotError
from tests.doubles.kube import merged

DECISIONS: dict[str, Callable[[Upgrade], Change]] = {
    "pause": changes.pause,
    "resume": changes.resume,
    "approve second": lambda upgrade: changes.approve(upgrade, "second"),
    "approve first": lambda upgrade: changes.approve(upgrade, "first"),
    "approve remainder": lambda upgrade: changes.approve(upgrade, "remainder"),
    "retry": lambda upgrade: changes.retry(upgrade, "token"),
    "abort": changes.abort,
}
SHA = "a" * 64


def states() -> list[Json]:
    actions = ["Plan", "Run", "Pause", "Abort"]
    pauses = [{}, {"nodeupgrade.dev/pause": "true"}, {"nodeupgrade.dev/pause": "false"}]
    approvals = [{}, {"nodeupgrade.dev/approve": "first"}, {"nodeupgrade.dev/approve": "other, second"}]
    retries = [{}, {"nodeupgrade.dev/retry": "before"}, {"nodeupgrade.dev/retry": "handled"}]
    statuses: list[Json] = [
        {},
        {"inFlight": [{"node": "a"}, {"node": "b"}], "counts": {"failed": 1, "rollbackFailed": 1}},
        {"completedAt": "2026-01-01T00:00:00Z", "counts": {"refused": 2}},
        {"completedAt": "2026-01-01T00:00:00Z"},
    ]
    every = itertools.product(actions, pauses, approvals, retries, statuses, [False, True])
    return [
        state(action, {**pause, **approve, **retry}, {"lastHandledRetry": "handled", **status}, deleting=deleting)
        for action, pause, approve, retry, status, deleting in every
    ]


def state(action: str, annotations: dict[str, str], status: Json, *, deleting: bool) -> Json:
    dying = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    return {
        "metadata": {"name": "it", "uid": "u", "resourceVersion": "1", "annotations": annotations, **dying},
        "spec": {
            "version": "v1.33.13",
            "artifact": {"preStaged": {"linux-amd64": {"path": "/kubelet", "sha256": SHA}}},
            "nodes": {"all": True},
            "waves": [{"name": "first", "size": 1}, {"name": "second", "size": 1, "approval": "Manual"}],
            "action": action,
        },
        "status": status,
    }


def decided(name: str, body: Json) -> Change | None:
    """The change; None if it is refused, with a reason."""
    try:
        return DECISIONS[name](parse_upgrade(body))
    except CannotError as error:
        if " because " in error.message:
            return None
        raise


@pytest.mark.parametrize("name", DECISIONS)
def test_once_is_enough(name: str) -> None:
    made = 0
    for body in states():
        change = decided(name, body)
        if change is None or change.patch is None:
            continue
        made += 1
        after = merged(body, change.patch)
        again = decided(name, after)
        assert again is not None
        assert again.patch is None
        assert parse_upgrade(after).approvals.keys() >= parse_upgrade(body).approvals.keys()
    assert made or name == "approve first"


def test_a_rollout_that_its_threshold_aborted_is_not_retried() -> None:
    body = state("Run", {}, {"counts": {"failed": 1}, "completedAt": "2026-01-01T00:00:00Z"}, deleting=False)
    told = {"type": "Succeeded", "status": "False", "reason": "Aborted", "message": ""}
    body["status"]["conditions"] = [{**told, "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    with pytest.raises(CannotError, match="it is aborted"):
        changes.retry(parse_upgrade(body), "token")


AWAITING = {"waves": [{"name": "remainder", "state": "AwaitingApproval"}]}
RUNNING = {"waves": [{"name": "remainder", "state": "Running"}]}
PENDING = {"waves": [{"name": "remainder", "state": "Pending"}]}


@pytest.mark.parametrize(("status", "writes"), [(AWAITING, True), (PENDING, True), ({}, True), (RUNNING, False)])
def test_a_wave_may_need_an_approval_whatever_its_policy(status: Json, writes: bool) -> None:
    """After a wave of which no node was upgraded; also before its turn, like any other approval."""
    change = changes.approve(parse_upgrade(state("Run", {}, status, deleting=False)), "remainder")
    assert (change.patch is not None) == writes
    if writes:
        assert change.says.endswith("even if no node of the last of them is upgraded")
    else:
        assert change.says == "wave remainder of it needs no approval, since it is Running"


def test_the_first_wave_needs_none_by_its_policy() -> None:
    change = changes.approve(parse_upgrade(state("Run", {}, {}, deleting=False)), "first")
    assert (change.patch, change.says) == (None, "wave first of it begins without approval")


@pytest.mark.parametrize(("status", "done"), [(AWAITING, False), (PENDING, True), (RUNNING, True)])
def test_it_is_waited_for_until_the_status_shows_the_approval(status: Json, done: bool) -> None:
    change = changes.approve(parse_upgrade(state("Run", {}, AWAITING, deleting=False)), "remainder")
    assert change.done(parse_upgrade(state("Run", {}, status, deleting=False))) == done


@pytest.mark.parametrize(
    ("failed", "retried"), [(0, "nodes of it that were repaired"), (2, "2 nodes of it that failed")]
)
def test_a_node_that_was_repaired_after_a_failed_rollback_is_retried(failed: int, retried: str) -> None:
    counts = {"counts": {"failed": failed, "rollbackFailed": 1}}
    change = changes.retry(parse_upgrade(state("Run", {}, counts, deleting=False)), "token")
    assert change.patch == {"metadata": {"annotations": {"nodeupgrade.dev/retry": "token"}}}
    assert change.says.startswith(retried)
    assert change.but.startswith("1 node could not be rolled back; such a node is retried only if it was repaired")


def test_what_is_known_to_be_repaired_is_no_reservation() -> None:
    body = state("Run", {}, {"counts": {"rollbackFailed": 2}}, deleting=False)
    assert changes.retry(parse_upgrade(body), "token", 1).but.startswith("1 node could not be rolled back")
    assert changes.retry(parse_upgrade(body), "token", 2).but == ""
