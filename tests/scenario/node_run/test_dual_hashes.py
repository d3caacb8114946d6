"""Nodes whose kubelet was built to accept the hashes of an older one too, with containers that still carry them.

A 1.12 kubelet started most of the containers, a patched 1.19 took over without a restart, and started the others.
"""

from dataclasses import dataclass, replace

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.errors import Refused
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.plan.plan import Limits, RunPlan
from nodeupgrade.node.run.report import RunReport, as_left, as_planned
from nodeupgrade.node.verification.verification import differences
from tests.doubles.node import Behaviour, SimulatedNode, plan_for, pod_json, supervise
from tests.doubles.node.dual_hash import LISTED, LONG, OLD_ONES, PATCHED, hashes, mixed
from tests.doubles.node.kubelet import PROGRAM, program

NEW = "v1.33.13"
LIMITS = Limits(settle=5.0)


@dataclass
class Fleet:
    """One node of it, and what ran there before the run."""

    node: SimulatedNode
    plan: RunPlan
    stored: dict[str, HashValue | None]

    def tell(self) -> RunReport:
        report = supervise(self.node, self.plan)
        assert report is not None
        self.node.timeline.advance(LONG)
        return report

    def nothing_restarted(self) -> bool:
        return self.node.kubelet.replaced == [] and differences(self.plan.baseline, self.node.inventory()) == ()


def fleet(to: str = NEW) -> Fleet:
    node = mixed()
    stored = hashes(node)
    return Fleet(node, plan_for(node, to, limits=LIMITS, also_accepted=LISTED), stored)


def test_control_a_kubelet_that_was_not_patched_restarts_them() -> None:
    """Without this, no other story shows that the patch matters."""
    node = mixed(accepts=())

    assert {label.rpartition("/")[2] for label in node.kubelet.replaced} == OLD_ONES
    assert node.kubelet.violations


def test_each_container_is_proven_by_the_kubelet_that_wrote_its_hash() -> None:
    it = fleet()

    assert {c.name: c.written_by for c in it.plan.containers} == {**dict.fromkeys(OLD_ONES, "1.12"), "queue": "1.19"}
    assert {c.name: c.before.container for c in it.plan.containers} == it.stored
    assert (it.node.kubelet.replaced, it.node.kubelet.violations) == ([], [])


@pytest.mark.parametrize("to", [NEW, "v1.20.15", "v1.19.16"])
def test_all_get_the_hash_of_the_new_kubelet_which_is_not_patched(to: str) -> None:
    it = fleet(to)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert {c.name: c.after.container for c in it.plan.containers} == hashes(it.node)
    assert it.nothing_restarted()
    assert it.node.kubelet.violations == []


def test_a_rollback_stores_exactly_what_was_found() -> None:
    it = fleet()
    it.node.kubelet.behaviour[NEW] = Behaviour.NEVER_HEALTHY

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0)
    assert hashes(it.node) == it.stored
    assert it.node.disk[PROGRAM] == program(PATCHED)
    assert it.nothing_restarted()
    assert it.node.kubelet.violations == []


def test_control_a_rollback_to_a_kubelet_that_was_not_patched_would_restart_them() -> None:
    it = fleet()
    it.plan = replace(it.plan, shield=None)
    it.node.kubelet.behaviour[NEW] = Behaviour.NEVER_HEALTHY
    it.node.calls.before(f"files.replace {PROGRAM}", it.node.kubelet.also_accepts.clear)

    it.tell()

    assert {label.rpartition("/")[2] for label in it.node.kubelet.replaced} >= {"nginx", "log"}


def test_there_and_back() -> None:
    """The way back knows nothing of the first kubelet: every container gets the hash of the patched one."""
    it = fleet()
    it.tell()
    it.node.journal.data = b""

    back = Fleet(it.node, plan_for(it.node, PATCHED, run="run-2", limits=LIMITS), hashes(it.node))
    report = back.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0)
    assert as_planned(back.plan).kubelets == {"1.33": 4}  # type: ignore[union-attr]
    assert back.nothing_restarted()
    assert it.node.kubelet.violations == []


@pytest.mark.parametrize("listed", [(), ("1.8", "1.16")])
def test_what_is_not_listed_refuses_the_node_and_is_named(listed: tuple[str, ...]) -> None:
    with pytest.raises(Refused) as refused:
        plan_for(mixed(), NEW, limits=LIMITS, also_accepted=listed)

    assert refused.value.finding.reason is Reason.STORED_HASH_NOT_REPRODUCED
    assert "it is what kubelet 1.9 to 1.15 computes" in str(refused.value)


def test_a_changed_pod_is_refused_whatever_is_listed() -> None:
    node = mixed()
    edited = pod_json("web", "nginx", "log")
    edited["spec"]["containers"][0]["image"] = "registry.example/nginx:2"
    node.kubelet.pods[0] = parse_pod(edited)

    with pytest.raises(Refused) as refused:
        plan_for(node, NEW, limits=LIMITS, also_accepted=("1.12", "1.13", "1.16"))

    assert refused.value.finding.reason is Reason.STORED_HASH_NOT_REPRODUCED
    assert "it is what kubelet" not in str(refused.value)


@pytest.mark.parametrize("seconds", [1.0, LONG - 1])
def test_a_kubelet_that_was_just_started_has_shown_nothing(seconds: float) -> None:
    with pytest.raises(Refused) as refused:
        plan_for(mixed(ran=seconds), NEW, limits=LIMITS, also_accepted=LISTED)

    assert refused.value.finding.reason is Reason.HASHES_NOT_YET_COMPARED
    assert f"started {seconds:.0f}s ago" in str(refused.value)


def test_a_node_without_such_containers_does_not_wait() -> None:
    node = SimulatedNode(version=PATCHED, pods=[pod_json("web", "nginx")])

    plan = plan_for(node, NEW, limits=LIMITS, also_accepted=LISTED)

    assert [c.written_by for c in plan.containers] == ["1.19"]


def test_the_census_says_what_was_found_and_what_is_left() -> None:
    it = fleet()
    found = as_planned(it.plan)
    assert found is not None
    assert found.kubelets == {"1.12": 3, "1.19": 1}

    report = it.tell()

    left = as_left(it.plan, report, it.node.timeline.wall)
    assert left is not None
    assert left.kubelets == {"1.33": 4}
