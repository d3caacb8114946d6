"""Owners change their pods while the kubelet is swapped; each change has its control, without the evidence."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

import pytest

from nodeupgrade.api.json import read_record
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import OwnedChange, OwnerChange
from nodeupgrade.api.task.step import Step
from nodeupgrade.cluster.owner_changes import Evidence, seen_in
from nodeupgrade.cluster.pods import Pod, parse_pod
from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import KUBELET_STARTED, RUNTIME_RESTARTED, Failpoint, When, at
from nodeupgrade.node.host.files.files import EntryKind, FileEntry
from nodeupgrade.node.journal.journal import Mark, Outcome, parse
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.plan.derived_uids import RECORD, OwnUids
from nodeupgrade.node.plan.hash_rewriting import newcomers
from nodeupgrade.node.plan.plan import Newcomers
from tests.doubles.node import Behaviour, SimulatedNode, agent_for, examination_of, manifest, pod_json
from tests.doubles.node.calls import Moment
from tests.doubles.node.containers.pods import MANIFESTS
from tests.doubles.node.storage.files import SimulatedFiles
from tests.doubles.node.supervisor import supervise
from tests.scenario.node_run.test_node_run import LIMITS, START, Story, story

OLD_STOPS, NEW_STARTS = "services.stop kubelet.service", START
RESTORES = "services.stop kubelet.service"
NGINX = "default/web/nginx"
IMAGE = OwnedChange(name=NGINX, change=OwnerChange.IMAGE_CHANGED)
PLANNED_IMAGE = "registry.example/nginx:1"
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
        seen = seen_in(it.plan.owned, it.node.kubelet.pods if knows else before, before=seen).and_before(seen)
        return seen

    def told() -> Newcomers:
        return newcomers(plan_in_effect(it.plan, parse(it.node.journal.data)[0]), it.node.kubelet.pods)

    it.node.ports = replace(it.node.ports, owner_changes=owners, newcomers=told)
    return it


def undone(it: Story) -> str | None:
    """What the journal says beside that the hashes are as they were."""
    record = parse(it.node.journal.data)[0].first(Step.REWRITE_HASHES, Mark.UNDONE)
    assert record is not None
    return record.error


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


@pytest.mark.parametrize("moment", ["services.prepare_mask kubelet.service", OLD_STOPS])
def test_a_resize_by_which_a_kubelet_that_starts_may_reject_pods_turns_the_run_back(moment: str) -> None:
    it = with_agent(story("v1.31.14", "v1.33.13"))
    it.node.calls.before(moment, lambda: sets(it, resources={"requests": {"memory": "900Gi"}}))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert f"{NGINX} was resized since the run was planned" in report.message
    assert it.nothing_restarted()


def test_control_kubelets_that_admit_what_they_allocated_take_a_resize() -> None:
    it = with_agent(story("v1.33.13", "v1.34.4"))
    it.node.calls.before(
        "services.prepare_mask kubelet.service", lambda: sets(it, resources={"requests": {"memory": "900Gi"}})
    )

    assert it.tell().outcome is Outcome.UPGRADED


@pytest.mark.parametrize(("old", "new"), [("v1.33.13", "v1.30.14"), ("v1.31.14", "v1.33.13")])
def test_a_resize_is_planned_to_restart_by_kubelets_that_hash_resources(old: str, new: str) -> None:
    assert story(old, new).plan.owned.resizes_restart == ("v1.30.14" in {old, new})


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


def of_agent(**how: Any) -> Story:
    """A story with an agent that answers about all that came, as on a real node."""
    pods = [pod_json("web", "nginx", "log", sidecars=("mesh",)), pod_json("job", "work", restart_policy="Never")]
    node = SimulatedNode(version="v1.30.14", pods=pods, **how)
    examination = examination_of(node, "v1.33.13", limits=LIMITS)
    assert examination.plan is not None
    node.shield.plan = examination.plan
    it = with_agent(Story(node, examination.plan))
    node.ports = replace(node.ports, planned_arrivals=agent_for(node, examination))
    return it


def acts_before_the_stop(it: Story, act: Callable[[], None]) -> None:
    """Have an owner change something for which the old kubelet still has time, after the last look."""
    it.node.calls.before("services.mask kubelet.service", act)
    it.node.calls.durations["services.mask kubelet.service"] = 2.0


def test_an_image_that_the_old_kubelet_has_set_before_the_stop_is_planned_and_named() -> None:
    it = of_agent()
    acts_before_the_stop(it, lambda: sets(it, image="nginx:2"))

    report = it.tell()

    assert (report.outcome, report.restarted, report.changed) == (Outcome.UPGRADED, 0, ()), report.message
    assert it.node.kubelet.replaced == [NGINX], "by the old kubelet"
    assert (report.ended_before, report.owner_changes) == ((NGINX,), (IMAGE,))
    assert (report.baseline, report.rewritten) == (4, 4)


def test_a_change_that_was_taken_in_before_the_stop_excuses_nothing_afterwards() -> None:
    it = of_agent()
    acts_before_the_stop(it, lambda: sets(it, image="nginx:2"))

    def spoil() -> None:
        [now] = [c for c in it.node.inventory().running() if c.name == "nginx"]
        it.node.runtime.serve(now.id, HashValue("bad"))

    it.node.calls.before(START, spoil)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.SHIELD_REFUSED_CALL)


def test_an_image_that_was_set_before_the_stop_and_back_after_it_is_taken_by_the_old_kubelet_on_the_way_back() -> None:
    it = of_agent()
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS

    def is_seen() -> None:
        sets(it, image="nginx:2")
        it.node.ports.owner_changes()

    acts_before_the_stop(it, is_seen)
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = lambda: sets(it, image=PLANNED_IMAGE)

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.ROLLED_BACK, 0)
    assert it.node.kubelet.replaced == [NGINX, NGINX], "by the old kubelet before the stop, and by the new one"
    assert undone(it) is None


def test_a_manifest_that_is_added_before_the_stop_is_kept_like_the_others_and_named() -> None:
    it = of_agent(manifests={"etcd.yaml": manifest("etcd", "etcd")})
    path = f"{MANIFESTS}/proxy.yaml"
    acts_before_the_stop(it, lambda: it.node.disk.update({path: manifest("proxy", "proxy")}))

    report = it.tell()

    assert (report.outcome, report.restarted, report.changed) == (Outcome.UPGRADED, 0, ()), report.message
    assert (it.node.kubelet.replaced, instances(it, "proxy"), instances(it, "etcd")) == ([], 1, 1)
    [uid] = {s.pod.uid for s in it.node.inventory().sandboxes if s.pod.name == "proxy-node-a"}
    assert f'uid: "{uid}"'.encode() in it.node.disk[path]
    known = read_record(it.node.disk[str(RECORD)], OwnUids()).known
    assert {own.path for own in known} == {path, ETCD}, "so that the next run knows when the UID is no longer needed"
    assert len({(own.version, own.gates, own.node) for own in known}) == 1
    assert report.owner_changes == (OwnedChange(name="default/proxy-node-a", change=OwnerChange.MANIFEST_ADDED),)


def test_a_manifest_that_is_added_before_the_stop_is_as_it_was_after_a_rollback() -> None:
    it = of_agent()
    path, added = f"{MANIFESTS}/proxy.yaml", manifest("proxy", "proxy")
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    acts_before_the_stop(it, lambda: it.node.disk.update({path: added}))

    report = it.tell()

    assert (report.outcome, report.restarted, it.node.disk[path]) == (Outcome.ROLLED_BACK, 0, added)
    assert instances(it, "proxy") == 1


def test_a_manifest_that_the_old_kubelet_has_read_before_the_stop_is_taken_in() -> None:
    it = of_agent(manifests={"etcd.yaml": manifest("etcd", "etcd")})
    acts_before_the_stop(it, lambda: edited(it))

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message
    assert (instances(it, "helper"), instances(it, "etcd")) == (1, 2)
    assert it.node.kubelet.replaced == ["default/etcd-node-a/etcd"], "by the old kubelet"
    assert OwnedChange(name="default/etcd-node-a", change=OwnerChange.MANIFEST_CHANGED) in report.owner_changes


def test_the_agent_is_believed_about_no_other_file_than_a_manifest() -> None:
    it = of_agent()
    path = f"{MANIFESTS}/proxy.yaml"
    acts_before_the_stop(it, lambda: it.node.disk.update({path: manifest("proxy", "proxy")}))
    honest = it.node.ports.planned_arrivals

    def lies(asked: Arrivals) -> PlannedArrivals | None:
        said = honest(asked)
        pins = () if said is None else (replace(pin, content=pin.content + b"# more\n") for pin in said.pins)
        return said and replace(said, pins=tuple(pins))

    it.node.ports = replace(it.node.ports, planned_arrivals=lies)

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert "more" not in it.node.disk[path].decode()


@pytest.mark.parametrize(
    ("since", "outcome"),
    [
        (KUBELET_STARTED, Outcome.UPGRADED),
        (at(Step.VERIFY, When.ANNOUNCED), Outcome.UPGRADED),
        (at(Step.PIN_STATIC_PODS, When.DONE), Outcome.ROLLED_BACK),
    ],
)
def test_a_manifest_that_cannot_be_read_any_more_keeps_no_run_from_ending(
    monkeypatch: pytest.MonkeyPatch, since: Failpoint, outcome: Outcome
) -> None:
    """A tool made a directory in its place: neither evidence of a change, nor anything to put back."""
    it, odd = story(manifests={"etcd.yaml": manifest("etcd", "etcd")}), list[bool]()

    def fail(name: str, _number: int, moment: Moment) -> None:
        if odd and moment is Moment.READING and name in {f"files.{how} {ETCD}" for how in ("read", "digest")}:
            raise StepFailed(f"cannot read {ETCD}: it is not a regular file")

    found = SimulatedFiles.entry

    def entry(files: SimulatedFiles, path: PurePosixPath) -> FileEntry | None:
        if odd and str(path) == ETCD:
            return FileEntry(kind=EntryKind.DIRECTORY, mode=0o755, links=1, real=path)
        return found(files, path)

    monkeypatch.setattr(SimulatedFiles, "entry", entry)
    it.node.calls.failpoints[since] = lambda: odd.append(True)
    it.node.calls.interrupt = fail

    report = supervise(it.node, it.plan, abort=lambda: bool(odd) and outcome is Outcome.ROLLED_BACK)

    assert report is not None
    assert (report.outcome, report.restarted, report.owner_changes) == (outcome, 0, ())
    assert it.kubelet == ("v1.33.13" if outcome is Outcome.UPGRADED else "v1.30.14")
    left = parse(it.node.journal.data)[0].first(Step.PIN_STATIC_PODS, Mark.UNDONE)
    assert (left is None) is (outcome is Outcome.UPGRADED)
    assert left is None or "is not a regular file" in str(left.error)


@pytest.mark.parametrize("moment", ["services.prepare_mask kubelet.service", OLD_STOPS])
def test_a_resize_before_the_stop_costs_no_restart_on_the_way_to_a_kubelet_that_hashes_resources(moment: str) -> None:
    """Kubelets from 1.33 on resize in place; the hash that was planned for an older one is that of the old size."""
    it = with_agent(story("v1.33.13", "v1.30.14"))
    it.node.calls.before(moment, lambda: sets(it, resources={"limits": {"memory": "1Gi"}}))

    report = it.tell()

    assert it.nothing_restarted()
    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED)
    assert NGINX in report.message


def test_a_resize_while_the_new_kubelet_is_watched_costs_no_restart_on_the_way_back() -> None:
    it = with_agent(story("v1.30.14", "v1.33.13"))
    it.node.kubelet.behaviour["v1.33.13"] = Behaviour.SICKENS
    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = lambda: sets(it, resources={"limits": {"cpu": "1"}})

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert it.nothing_restarted()


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
def test_a_change_that_was_taken_back_before_a_kubelet_saw_it_excuses_nothing(shield: bool) -> None:
    it = with_agent(story(shield=shield))

    def there_and_back() -> None:
        sets(it, image="nginx:2")
        it.node.ports.owner_changes()
        sets(it, image=PLANNED_IMAGE)
        it.node.runtime.serve(it.container("nginx"), HashValue("bad"))

    it.node.calls.before(START, there_and_back)

    report = it.tell()

    assert report.outcome is Outcome.ROLLED_BACK
    assert report.reason is (Reason.SHIELD_REFUSED_CALL if shield else Reason.CONTAINER_RESTARTED)


def test_a_change_that_is_taken_back_once_a_kubelet_has_acted_on_it_is_the_owners_twice() -> None:
    it = with_agent(story())
    it.node.calls.before(START, lambda: sets(it, image="nginx:2"))

    def back() -> None:
        it.node.ports.owner_changes()
        sets(it, image=PLANNED_IMAGE)

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = back

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message
    assert it.node.kubelet.replaced == [NGINX, NGINX]


def test_what_was_seen_to_be_the_owners_stays_so_once_nothing_is_left_of_what_a_kubelet_did_for_it() -> None:
    """An image is set and taken back again and again: of the containers that ended, a kubelet keeps only the last."""
    it = with_agent(story())
    it.node.calls.before(START, lambda: sets(it, image="nginx:2"))

    def forget() -> None:
        planned = {c.after.container for c in it.plan.containers}
        ended = [c for c in it.node.inventory().containers if c.name == "nginx" and c.hashes.container not in planned]
        assert len(ended) == 1
        del it.node.runtime.containers[ended[0].id]

    def back() -> None:
        sets(it, image=PLANNED_IMAGE)
        it.node.timeline.after(2.0, forget)

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = back

    report = it.tell()

    assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report.message
    assert (report.changed, report.owner_changes) == ((NGINX,), (IMAGE,))


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
@pytest.mark.parametrize(
    ("change", "named"), [(edited, OwnerChange.MANIFEST_CHANGED), (removed, OwnerChange.MANIFEST_REMOVED)]
)
def test_a_manifest_that_is_taken_back_once_a_kubelet_has_acted_on_it_is_the_owners_as_well(
    change: Callable[[Story], None], named: OwnerChange, shield: bool
) -> None:
    """People restart a static pod by moving its manifest away and back."""
    it = with_agent(story(manifests={"etcd.yaml": manifest("etcd", "etcd")}, shield=shield))

    def and_back() -> None:
        before = it.node.disk[ETCD]
        change(it)
        it.node.timeline.after(2.5, lambda: it.node.disk.update({ETCD: before}))

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = and_back

    report = it.tell()

    assert (report.outcome, report.restarted, report.listed) == (Outcome.UPGRADED, 0, ()), report.message
    assert report.owner_changes == (OwnedChange(name="default/etcd-node-a", change=named),)
    assert others_run_on(it, "etcd")


PLAIN = manifest("etcd", "etcd")
AGAIN = PLAIN + b"# rendered again\n"
"""The same pod, without the UID that the run has added: to the new kubelet, it has another one."""
LATER = (Step.REWRITE_HASHES, Step.RESTART_RUNTIME, Step.READ_BACK, Step.RAISE_SHIELD, Step.SWAP_BINARY)


@pytest.mark.parametrize("data", [PLAIN, AGAIN], ids=["as it was", "with a comment"])
@pytest.mark.parametrize("since", [at(step, When.ANNOUNCED) for step in (*LATER, Step.START_KUBELET)], ids=str)
def test_a_manifest_that_a_tool_writes_again_before_the_new_kubelet_starts_turns_the_run_back(
    since: Failpoint, data: bytes
) -> None:
    """A kubelet kills a static pod of another UID by its cgroup, which no shield refuses."""
    it = with_agent(story(manifests={"etcd.yaml": PLAIN}))
    it.node.calls.failpoints[since] = lambda: it.node.disk.update({ETCD: data})

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.INVENTORY_CHANGED), report.message
    assert report.message.startswith(f"{ETCD} was changed")
    assert it.nothing_restarted()
    assert it.node.disk[ETCD] == data


@pytest.mark.parametrize("shield", [True, False], ids=["shield", "no shield"])
@pytest.mark.parametrize("data", [PLAIN, AGAIN], ids=["as it was", "with a comment"])
def test_a_manifest_that_a_tool_writes_again_later_is_no_change_by_an_owner(data: bytes, shield: bool) -> None:
    it = with_agent(story(manifests={"etcd.yaml": PLAIN}, shield=shield))
    it.node.calls.before(START, lambda: it.node.disk.update({ETCD: data}))

    report = it.tell()

    assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.CONTAINER_RESTARTED), report.message
    assert (report.listed, report.owner_changes) == (("default/etcd-node-a/etcd",), ())


def test_a_comment_beside_the_uid_is_no_change_by_an_owner_either() -> None:
    it = with_agent(story(manifests={"etcd.yaml": PLAIN}))
    it.node.calls.before(START, lambda: it.node.disk.update({ETCD: it.node.disk[ETCD] + b"# more\n"}))

    report = it.tell()

    assert (report.outcome, report.owner_changes) == (Outcome.UPGRADED, ())
    assert it.nothing_restarted()


def test_a_line_that_stays_in_a_manifest_which_was_edited_is_named_when_the_run_turns_back() -> None:
    """With it, the next edit may have no effect."""
    it, turned_back = with_agent(story(manifests={"etcd.yaml": PLAIN})), list[bool]()

    def edit() -> None:
        it.node.disk[ETCD] = it.node.disk[ETCD].replace(b"etcd:1", b"etcd:2")
        turned_back.append(True)

    it.node.calls.failpoints[at(Step.VERIFY, When.ANNOUNCED)] = edit

    report = supervise(it.node, it.plan, abort=lambda: bool(turned_back))

    assert report is not None
    assert report.outcome is Outcome.ROLLED_BACK
    assert b"etcd:2" in it.node.disk[ETCD]
    undone = parse(it.node.journal.data)[0].first(Step.PIN_STATIC_PODS, Mark.UNDONE)
    assert undone is not None
    assert undone.error == f"metadata.uid is still in {ETCD}, which was changed during the run"


@pytest.mark.parametrize("told", [True, False], ids=["told", "control"])
@pytest.mark.parametrize("exit_code", [0, 143])
def test_a_pod_that_the_old_kubelet_was_ending_for_its_owner_may_end_without_a_kubelet(
    exit_code: int, told: bool
) -> None:
    """Deleted before the stop, it drains: the call that ends it is cancelled with the kubelet, its process goes on."""
    it = story()
    gone = next(pod for pod in it.node.kubelet.pods if pod.ref.name == "web")
    evidence = Evidence(deleted=(gone.ref.uid,) if told else ())
    it.node.ports = replace(it.node.ports, owner_changes=lambda: evidence)

    def ends() -> None:
        it.node.kubelet.pods = [pod for pod in it.node.kubelet.pods if pod is not gone]
        for container in it.plan.containers:
            if container.pod == gone.ref:
                it.node.runtime.end(container.id, exit_code)

    it.node.calls.failpoints[RUNTIME_RESTARTED] = ends

    report = it.tell()

    if told:
        assert (report.outcome, report.restarted) == (Outcome.UPGRADED, 0), report
        assert sorted(report.changed) == [f"default/web/{name}" for name in ("log", "mesh", "nginx")]
    else:
        assert (report.outcome, report.reason) == (Outcome.ROLLED_BACK, Reason.VERIFICATION_FAILED)
