"""Tests what the evidence says about the kubelet's package and about replaced static Pods."""

from dataclasses import replace

import pytest

from nodeupgrade.api.task.status import ContainerCounts, KubeletPackage, TaskPhase, TaskStatus
from nodeupgrade.api.values import NodeName, RunId
from nodeupgrade.cli.screens import evidence
from nodeupgrade.cli.screens.evidence import _package
from tests.scenario.agent.given import upgrade_task

DIFFERS = "owns the program, which now differs from the package"


@pytest.mark.parametrize(
    ("package", "said"),
    [
        (KubeletPackage(manager="dpkg", name="kubelet", version="1.30.14-1.1", held=True, held_by_us=True),
         f"kubelet 1.30.14-1.1 (dpkg) {DIFFERS}; it is held by this run"),
        (KubeletPackage(manager="dpkg", name="kubelet", version="1.30.14-1.1", held=True),
         f"kubelet 1.30.14-1.1 (dpkg) {DIFFERS}; it is held"),
        (KubeletPackage(manager="rpm", name="kubelet"), f"kubelet (rpm) {DIFFERS}; it is not held"),
    ],
    ids=["held by the run", "held before", "ignored"],
)  # fmt: skip
def test_the_package_is_named_and_who_holds_it(package: KubeletPackage, said: str) -> None:
    assert _package(package) == said


COUNTS = ContainerCounts(baseline=3, unchanged=2, recreated=1, recreated_list=("kube-system/etcd-a/etcd",))
TASK = replace(
    upgrade_task(NodeName("a"), RunId("run"), "v1.30.14", "v1.33.13", source="/opt/kubelet"),
    status=TaskStatus(run_id="run", phase=TaskPhase.SUCCEEDED, containers=COUNTS),
)


def test_replaced_static_pods_are_named_beside_what_was_restarted() -> None:
    said = dict(evidence._containers(TASK))

    assert str(said["Restarted"]) == "none"
    assert said["Replaced"] == "1 container of static pods, on request: kube-system/etcd-a/etcd"


def test_without_replaced_static_pods_nothing_is_said() -> None:
    none = ContainerCounts(baseline=3, unchanged=3)
    task = replace(TASK, status=replace(TASK.reported, containers=none))

    assert "Replaced" not in dict(evidence._containers(task))


@pytest.mark.parametrize(("ended", "said"), [(0, ""), (2, ""), (25, " and 23 more")], ids=["not counted", "all", "few"])
def test_what_ended_and_is_not_named_is_counted(ended: int, said: str) -> None:
    """Agents of earlier versions name without counting."""
    counts = ContainerCounts(baseline=30, ended=ended, ended_list=("a/b/c", "a/b/d"))
    task = replace(TASK, status=replace(TASK.reported, containers=counts))

    assert dict(evidence._containers(task))["Ended"] == f"by themselves or with their pod: a/b/c, a/b/d{said}"
