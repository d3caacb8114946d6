"""Tests which resize policies may restart a container."""

import pytest

from nodeupgrade.kubelethash import resize_may_restart


def test_an_amount_that_cannot_be_read_counts() -> None:
    container = {"name": "c", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}

    assert resize_may_restart({**container, "resources": {"limits": {"cpu": "a lot"}}}, "1.32", "1.33")


OF_POD = {"limits": {"memory": "1Gi", "cpu": "1"}}
UNLIMITED = {"name": "c", "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
LIMITED = {**UNLIMITED, "resources": {"limits": {"memory": "512Mi"}}}


@pytest.mark.parametrize(
    ("before", "after", "static", "restarts"),
    [
        ("1.33.6", "1.35.4", False, False),
        ("1.33.6", "1.36.3", False, True),
        ("1.34.4", "1.36.3", False, True),
        ("1.34.4", "1.37.2", False, True),
        ("1.35.4", "1.36.3", False, True),
        ("1.35.4", "1.36.3", True, True),
        ("1.36.3", "1.37.2", False, False),
        ("1.37.2", "1.36.3", True, False),
        ("1.36.3", "1.35.4", False, True),
        ("1.37.2", "1.34.4", False, True),
        ("1.36.3", "1.35.4", True, False),
        ("1.36.3", "1.32.9", False, False),
    ],
)
def test_limits_of_the_pod_restart_where_only_one_kubelet_hands_them_down(
    before: str, after: str, static: bool, restarts: bool
) -> None:
    assert resize_may_restart(UNLIMITED, before, after, pod_resources=OF_POD, static=static) is restarts


def test_limits_of_the_pod_do_not_count_for_a_container_with_its_own_or_for_another_resource() -> None:
    assert not resize_may_restart(LIMITED, "1.35", "1.36", pod_resources=OF_POD)
    assert not resize_may_restart(UNLIMITED, "1.35", "1.36", pod_resources={"limits": {"cpu": "1"}})
    assert not resize_may_restart(UNLIMITED, "1.35", "1.36", pod_resources={"requests": {"memory": "1Gi"}})


def test_whether_limits_are_handed_down_is_for_the_gate_to_say() -> None:
    off, on = (False, False), (False, True)

    assert not resize_may_restart(UNLIMITED, "1.35", "1.36", pod_resources=OF_POD, allocates=off)
    assert resize_may_restart(UNLIMITED, "1.36", "1.37", pod_resources=OF_POD, allocates=on)
