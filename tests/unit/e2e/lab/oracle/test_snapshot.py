"""Tests how snapshots of a node are compared."""

from dataclasses import asdict, replace

import pytest

from e2e.lab import ContainerInstance, compare
from tests.builders.lab import BEFORE, CONTAINER


def test_the_same_instances_have_no_differences() -> None:
    assert compare(BEFORE, BEFORE) == []


def test_a_rewritten_hash_is_a_difference_only_on_request() -> None:
    after = replace(BEFORE, containers=(replace(CONTAINER, stored_hash="bbbb", served_hash="bbbb"),))
    assert compare(BEFORE, after) == []
    assert [entry.change for entry in compare(BEFORE, after, hashes=True)] == ["stored_hash", "served_hash"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("pid", 101), ("process_start", 5001), ("monitor_pid", 1), ("started_at", 3), ("attempt", 1), ("exit_code", 137)],
)
def test_whatever_else_changes_is_reported(name: str, value: int) -> None:
    changed = ContainerInstance(**{**asdict(CONTAINER), name: value})
    after = replace(BEFORE, containers=(changed,))
    (difference,) = compare(BEFORE, after)
    assert (difference.kind, difference.id, difference.change, difference.after) == (
        "container",
        "c1",
        name,
        str(value),
    )


def test_a_restarted_container_is_one_gone_and_one_new() -> None:
    after = replace(BEFORE, containers=(replace(CONTAINER, id="c2", attempt=1, pid=200),), sandboxes=())
    assert [str(entry) for entry in compare(BEFORE, after)] == [
        "container shop/web-1/web (c1): gone",
        "container shop/web-1/web (c2): new",
        "sandbox shop/web-1/web-1 (s1): gone",
    ]


def test_a_pod_is_split_if_a_container_runs_under_another_monitor_than_its_sandbox() -> None:
    def split(**changes: object) -> set[str]:
        return replace(BEFORE, containers=(ContainerInstance(**{**asdict(CONTAINER), **changes}),)).split_pods()

    assert split(monitor_pid=91) == {"shop/web-1"}
    assert split() == split(monitor_pid=None) == split(monitor_pid=91, state="CONTAINER_EXITED") == set()
