"""Owners change their pods while the kubelet is swapped; each change has its control, without the evidence."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import OwnedChange, OwnerChange
from nodeupgrade.api.task.step import Step
from nodeupgrade.cluster.owner_changes import Evidence, seen_in
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Outcome
from nodeupgrade.node.plan.hash_rewriting import newcomers
from tests.doubles.node import Behaviour, manifest
from tests.doubles.node.containers.pods import MANIFESTS
from tests.scenario.node_run.test_node_run import START, Story, story

OLD_STOPS, NEW_STARTS = "services.stop kubelet.service", START
RESTORES = "services.stop kubelet.service"
NGINX = "default/web/nginx"
IMAGE = OwnedChange(name=NGINX, change=OwnerChange.IMAGE_CHANGED)
ETCD = f"{MANIFESTS}/etcd.yaml"


def changed(pod: Pod, name: str, **changes: Any) -> Pod:
    now = deepcopy(dict(pod.raw))
    now["spec"]["containers"] = [c | (changes if c["name"] == name else {}) for c in now["spec"]["containers"]]
    return parse_pod(now)


def sets(it: Story, name: str = "nginx", **changes: Any) -> None:
    """Have an owner change a container of the pod web at the API server, where the kubelet sees it."""
    it.node.kubelet.pods = [changed(p, name, **changes) if p.ref.name == "web" else p for p in it.node.kubelet.pods]


def with_agent(it: Story, *, knows: bool = True) -> Story:
    """Have an agent that sees what the API server shows; or one that sees what it showed before."""
    before = tuple(it.node.kubelet.pods)
    seen = Evidence()

    def owners() -> Evidence:
        nonlocal seen
        seen = seen_in(it.plan.owned, it.node.kubelet.pods if knows else before).and_before(seen)
        return seen

    it.node.ports = replace(
        it.node.ports, owner_changes=owners, newcomers=lambda: newcomers(it.plan, it.node.kubelet.pods)
    )
    return it


def instances(it: Story, name: str) -> int:
    return sum(c.name == name for c in it.node.inventory().containers)


def others_run_on(it: Story, *but: str) -> bool:
    before, now = it.plan.baseline.running(), {c.id for c in it.node.inventory().running()}
    return all(c.id in now for c in before if c.name not in but)


MOMENTS = ["services.stop kubelet.service", "runtime.rewrite", "services.restart containerd.service", START]


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_image_that_is_set_while_no_kubelet_runs_is_let_through_and_named(moment: str, shield: bool) -> None:
    it = with_agent(story(shield=shield))
    it.node.calls.before(moment, lambda: sets(it, image="nginx:2"))

    report = it.tell()

    assert (report.outcome, report.restarted, report.listed, report.ended) == (Outcome.UPGRADED, 0, (), ())
    assert (report.changed, report.owner_changes) == ((NGINX,), (IMAGE,))
    assert it.node.kubelet.replaced == [NGINX]
    assert others_run_on(it, "nginx")


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
def test_control_without_the_evidence_the_run_is_turned_back(shield: bool) -> None:
    it = with_agent(story(shield=shield), knows=False)
    it.node.calls.before(START, lambda: sets(it, image="nginx:2"))

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert report.reason is (Reason.SHIELD_REFUSED_CALL if shield else Reason.CONTAINER_RESTARTED)
    assert report.owner_changes == ()


def test_a_change_of_one_container_does_not_excuse_another() -> None:
    it = with_agent(story())

    def also() -> None:
        sets(it, image="nginx:2")
        it.node.runtime.serve(it.container("log"), HashValue("bad"))

    it.node.calls.before(START, also)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)
    assert "default/web/log" in report.message
    assert others_run_on(it, "nginx"), "the shield held"


def test_on_the_way_back_the_old_kubelet_takes_what_the_new_one_began_for_an_owner() -> None:
    """It was begun once for its owner, with the new kubelet's hash of the new spec."""
    it = with_agent(story())
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    it.node.calls.before(START, lambda: sets(it, image="nginx:2"))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0)
    assert it.node.kubelet.replaced == [NGINX]
    assert instances(it, "nginx") == 2
    assert others_run_on(it, "nginx")
    assert report.owner_changes == (IMAGE,)


def test_an_image_that_is_set_on_the_way_back_is_set_by_the_old_kubelet() -> None:
    it = with_agent(story())
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    it.node.calls.failpoints[at(Step.REWRITE_HASHES, When.UNDOING)] = lambda: sets(it, image="nginx:2")

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0)
    assert (it.node.kubelet.replaced, report.owner_changes) == ([NGINX], (IMAGE,))


def test_a_resize_that_the_kubelet_needs_no_restart_for_is_named_only() -> None:
    it = with_agent(story("v1.31.14", "v1.33.13"))
    it.node.calls.before(START, lambda: sets(it, resources={"limits": {"memory": "1Gi"}}))

    report = it.tell()

    assert (report.outcome, report.restarted, report.changed) == (Outcome.UPGRADED, 0, ())
    assert report.owner_changes == (OwnedChange(name=NGINX, change=OwnerChange.RESIZED),)
    assert it.nothing_restarted()


def edited(it: Story) -> None:
    it.node.disk[ETCD] = manifest("etcd", "etcd", "helper")


def removed(it: Story) -> None:
    del it.node.disk[ETCD]


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
@pytest.mark.parametrize("moment", [OLD_STOPS, "services.restart containerd.service", START])
@pytest.mark.parametrize(
    ("change", "named"), [(edited, OwnerChange.MANIFEST_CHANGED), (removed, OwnerChange.MANIFEST_REMOVED)]
)
def test_a_manifest_that_is_edited_or_removed_is_let_through_and_named(
    change: Callable[[Story], None], named: OwnerChange, moment: str, shield: bool
) -> None:
    it = with_agent(story(manifests={"etcd.yaml": manifest("etcd", "etcd")}, shield=shield))
    it.node.calls.before(moment, lambda: change(it))

    report = it.tell()

    assert (report.outcome, report.restarted, report.listed) == (Outcome.UPGRADED, 0, ()), report.message
    assert report.owner_changes == (OwnedChange(name="default/etcd-node-a", change=named),)
    assert others_run_on(it, "etcd")
    assert (instances(it, "helper") == 1) is (change is edited)
