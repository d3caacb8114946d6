from dataclasses import asdict, replace

import pytest

from e2e.cluster import disturbed
from e2e.lab import ContainerInstance, NodeSnapshot, SandboxInstance, compare

CONTAINER = ContainerInstance(
    id="c1", name="web", pod="shop/web-1", pod_uid="u1", sandbox_id="s1", state="CONTAINER_RUNNING", attempt=0,
    created_at=1, started_at=2, finished_at=0, exit_code=0, pid=100, process_start=5000, monitor_pid=90,
    stored_hash="aaaa", served_hash="aaaa",
)  # fmt: skip
SANDBOX = SandboxInstance(
    id="s1", name="web-1", pod="shop/web-1", pod_uid="u1", state="SANDBOX_READY", attempt=0, created_at=1, pid=95,
    process_start=4900, monitor_pid=90, address="10.244.1.2",
)  # fmt: skip
BEFORE = NodeSnapshot(node="node1", containers=(CONTAINER,), sandboxes=(SANDBOX,))


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


def test_whoever_ran_and_is_gone_was_disturbed_but_for_the_agent_of_an_earlier_run() -> None:
    """Its pod is deleted when its run is over, and takes its time."""
    its = replace(CONTAINER, pod="nodeupgrade-system/nodeupgrade-agent-node1")
    agent = replace(BEFORE, containers=(its,), sandboxes=())
    gone = replace(BEFORE, containers=(), sandboxes=())

    assert [difference.pod for difference in disturbed(BEFORE, gone)] == ["shop/web-1", "shop/web-1"]
    assert disturbed(agent, gone) == []
