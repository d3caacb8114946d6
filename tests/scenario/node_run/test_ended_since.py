"""What ends by itself after a run, while the agent waits for probes, and what is not known to."""

from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from nodeupgrade.api.limits import CONTAINERS_LISTED
from nodeupgrade.api.task.status import ContainerCounts, OwnedChange, OwnerChange, TaskPhase
from nodeupgrade.node.agent.ended_since import with_ended_since
from nodeupgrade.node.journal.journal import parse
from nodeupgrade.node.node import Host
from nodeupgrade.node.task_status.run_status import run_status
from tests.doubles.node import manifest, plan_for, pod_json
from tests.doubles.node.containers.pods import MANIFESTS
from tests.scenario.node_run.test_node_run import LIMITS, Story, story
from tests.scenario.node_run.test_settling import while_settling


@pytest.mark.parametrize("suspended", [0, 3600], ids=["never suspended", "suspended before its run"])
@pytest.mark.parametrize("again", [False, True], ids=["same kubelet", "runtime and kubelet started again"])
def test_a_later_kubelets_runtime_has_no_log_of_what_the_former_one_asked_for(again: bool, suspended: int) -> None:
    """Nor where the node was suspended: systemd's clock stands still meanwhile, and the journal's does not."""
    node = story().node
    node.timeline.suspend(suspended)
    it = Story(node, plan_for(node, "v1.33.13", limits=LIMITS))
    it.tell()
    journal = parse(node.journal.data)[0]
    status = run_status(it.plan.run_id, it.plan, journal)
    assert (status.phase, status.containers.ended_list) == (TaskPhase.SUCCEEDED, ())
    node.runtime.end(it.container("nginx"), 143)
    if again:
        node.runtime.restart()
        node.timeline.advance(5)
        node.kubelet.stop()
        node.services.start_kubelet()
        node.timeline.advance(2)

    host = cast("Host", SimpleNamespace(node=lambda *_: node.ports))

    ended = with_ended_since(status, host, it.plan, journal).containers.ended_list
    assert ended == (() if again else ("default/web/nginx",))


def with_ended(it: Story) -> ContainerCounts:
    """The counts that the agent reports at its end."""
    journal, node = parse(it.node.journal.data)[0], it.node
    status = run_status(it.plan.run_id, it.plan, journal)
    host = cast("Host", SimpleNamespace(node=lambda *_: node.ports))
    return with_ended_since(status, host, it.plan, journal).containers


def test_what_ends_since_is_listed_before_what_ended_while_the_kubelet_settled() -> None:
    """There is room for few, and without it the control plane takes it for a restart."""
    jobs = tuple(pod_json(f"j{n}", f"j{n}") for n in range(CONTAINERS_LISTED))
    it = story(more=jobs)
    for pod in range(CONTAINERS_LISTED):
        while_settling(it, partial(it.node.runtime.end, it.container(f"j{pod}"), 1))
    assert len(it.tell().ended) == CONTAINERS_LISTED
    it.node.runtime.end(it.container("nginx"), 1)
    it.node.timeline.advance(2)

    counts = with_ended(it)

    assert len(counts.ended_list) == CONTAINERS_LISTED
    assert counts.ended_list[0] == "default/web/nginx"


@pytest.mark.parametrize("complete", [True, False], ids=["log", "incomplete log"])
def test_what_ended_by_itself_and_is_restarted_by_the_kubelet_afterwards_is_not_excused(complete: bool) -> None:
    it = story(shield=False)
    while_settling(it, lambda: it.node.runtime.end(it.container("nginx"), 1))
    assert it.tell().ended == ("default/web/nginx",)
    again = next(c for c in it.node.inventory().running() if c.name == "nginx")
    it.node.runtime.troubles.exits_when_stopped[again.id] = 0
    it.node.runtime.stop_container(again.id)
    it.node.timeline.advance(2)
    it.node.runtime.troubles.silent = not complete

    assert with_ended(it).ended_list == (() if complete else ("default/web/nginx",))


def test_a_manifest_that_is_edited_after_a_run_is_named_and_its_pod_is_not_unchanged() -> None:
    it = story(manifests={"etcd.yaml": manifest("etcd", "etcd")})
    it.tell()
    journal, node = parse(it.node.journal.data)[0], it.node
    status = run_status(it.plan.run_id, it.plan, journal)
    node.disk[f"{MANIFESTS}/etcd.yaml"] = manifest("etcd", "etcd", "helper")
    node.timeline.advance(5)
    host = cast("Host", SimpleNamespace(node=lambda *_: node.ports))

    counts = with_ended_since(status, host, it.plan, journal).containers

    assert counts.owner_changes == (OwnedChange(name="default/etcd-node-a", change=OwnerChange.MANIFEST_CHANGED),)
    assert (counts.unchanged, counts.ended_list) == (status.containers.unchanged - 1, ())
