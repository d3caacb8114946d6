"""Static pods, there and back: what is written into manifests, when it is taken out again, and when an edit counts."""

import json
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import StaticPodPolicy
from nodeupgrade.api.task.status import ManifestUid, TaskStatus
from nodeupgrade.node.journal.journal import parse
from nodeupgrade.node.plan.derived_uids import RECORD
from nodeupgrade.node.plan.manifest_uid import COMMENT, pin, unpin
from nodeupgrade.node.plan.plan import Limits, RunPlan
from nodeupgrade.node.shield.harmful_calls import Shielded
from nodeupgrade.node.task_status.run_status import run_status
from tests.doubles.node import Behaviour, SimulatedNode, manifest, plan_for, pod_json, supervise
from tests.doubles.node.containers.pods import MANIFESTS

OLD, NEW = "v1.30.14", "v1.33.13"
LIMITS = Limits(settle=5.0)
ETCD, WEB = f"{MANIFESTS}/etcd.yaml", f"{MANIFESTS}/web.json"
YAML = manifest("etcd", "etcd")
JSON = json.dumps(
    {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
).encode()
IMAGE = b"registry.example/etcd:1"


@dataclass
class Story:
    """A node with two static pods, upgraded one way and the other."""

    node: SimulatedNode
    plans: list[RunPlan] = field(default_factory=list)

    def go(self, version: str, static_pods: StaticPodPolicy = StaticPodPolicy.PIN, *, restarts: int = 0) -> TaskStatus:
        run = f"run-{len(self.plans) + 1}"
        self.plans.append(plan_for(self.node, version, run=run, limits=LIMITS, static_pods=static_pods))
        self.node.journal.data = b""
        report = supervise(self.node, self.plans[-1])
        assert report is not None
        assert report.restarted == restarts, report
        self.node.timeline.advance(5.0)
        return run_status("run", self.plans[-1], parse(self.node.journal.data)[0])

    def edit(self, data: bytes) -> list[str]:
        """Write a manifest, and return the names of the containers that the kubelet replaces because of that."""
        before = len(self.node.kubelet.replaced)
        self.node.disk[ETCD] = data
        self.node.timeline.advance(5.0)
        return [label.rpartition("/")[2] for label in self.node.kubelet.replaced[before:]]

    @property
    def manifests(self) -> tuple[bytes, bytes]:
        return self.node.disk[ETCD], self.node.disk[WEB]


@pytest.fixture
def it() -> Story:
    return Story(SimulatedNode(version=OLD, pods=(), manifests={"etcd.yaml": YAML, "web.json": JSON}))


def with_env(data: bytes) -> bytes:
    """Add a variable to the environment of the pod's only container."""
    flow, block = (
        b"  - {name: etcd, image: '%b'}",
        b"  - name: etcd\n    image: '%b'\n    env: [{name: ADDED, value: x}]",
    )
    edited = data.replace(flow % IMAGE, block % IMAGE)
    assert edited != data
    return edited


def test_a_comment_says_what_to_do_with_the_line(it: Story) -> None:
    it.go(NEW)

    lines = it.node.disk[ETCD].decode().splitlines()
    at = lines.index(f"  {COMMENT}")
    assert lines[at + 1].startswith('  uid: "')
    assert [*lines[:at], *lines[at + 2 :]] == YAML.decode().splitlines()


def test_with_the_line_an_edit_has_no_effect_and_without_it_it_has(it: Story) -> None:
    """The first half is what kubelets from 1.31 on do: only name and image are hashed, and the UID stays."""
    it.go(NEW)
    pinned = it.node.disk[ETCD]

    assert it.edit(with_env(pinned)) == []
    assert it.edit(with_env(YAML)) == ["etcd"]


def test_on_the_way_back_every_manifest_is_as_it_was(it: Story) -> None:
    before = it.node.inventory()
    there = it.go(NEW)
    assert {(each.path, each.uid) for each in there.manifests} == {
        (ETCD, ManifestUid.ADDED), (WEB, ManifestUid.ADDED),
    }  # fmt: skip
    assert "2 static pod manifests" in there.message
    assert ETCD in there.message

    back = it.go(OLD)

    assert it.manifests == (YAML, JSON)
    assert {(each.path, each.uid) for each in back.manifests} == {
        (ETCD, ManifestUid.REMOVED), (WEB, ManifestUid.REMOVED),
    }  # fmt: skip
    assert "manifest" not in back.message
    assert it.node.kubelet.replaced == []
    assert it.node.inventory() == before


def test_there_and_back_and_there_again(it: Story) -> None:
    for version in (NEW, OLD, NEW, OLD):
        it.go(version)

    assert it.manifests == (YAML, JSON)
    assert it.node.kubelet.replaced == []


def test_a_patch_release_of_the_recorded_minor_needs_no_line_either(it: Story) -> None:
    it.go(NEW)
    it.go("v1.30.9")

    assert it.manifests == (YAML, JSON)
    assert it.node.kubelet.replaced == []


def test_another_minor_keeps_the_line_and_says_so(it: Story) -> None:
    it.go(NEW)
    pinned = it.manifests

    status = it.go("v1.29.15")

    assert it.manifests == pinned
    assert {each.uid for each in status.manifests} == {ManifestUid.KEPT}
    assert ETCD in status.message
    assert it.node.kubelet.replaced == []


def test_a_manifest_that_was_edited_since_keeps_its_line(it: Story) -> None:
    it.go(NEW)
    edited = with_env(it.node.disk[ETCD])
    it.edit(edited)

    it.go(OLD)

    assert it.manifests == (edited, JSON)
    assert it.node.kubelet.replaced == []


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "damaged"])
def test_without_the_record_lines_stay(it: Story, lost: bool) -> None:
    it.go(NEW)
    pinned = it.manifests
    if lost:
        del it.node.disk[str(RECORD)]
    else:
        it.node.disk[str(RECORD)] = b'{"known": [{}]}'

    status = it.go(OLD)

    assert it.manifests == pinned
    assert {each.uid for each in status.manifests} == {ManifestUid.KEPT}
    assert it.node.kubelet.replaced == []


def test_a_record_of_another_node_proves_nothing(it: Story) -> None:
    """An image of a node's disk, started as another node: its kubelet computes another UID."""
    it.go(NEW)
    pinned = it.manifests
    it.node.disk[str(RECORD)] = it.node.disk[str(RECORD)].replace(b"node-a", b"node-b")

    it.go(OLD)

    assert it.manifests == pinned


def test_what_a_forged_record_costs_is_told(it: Story) -> None:
    """Only root on the node can forge it. The kubelet kills the cgroup of a static pod with another UID by itself."""
    it.go(NEW)
    pinned = it.manifests
    it.node.disk[str(RECORD)] = it.node.disk[str(RECORD)].replace(b'"v1.30.14"', b'"v1.32.13"')

    status = it.go("v1.32.13", restarts=2)

    assert status.phase == "RolledBack"
    assert len(status.containers.restarted_list) == 2
    assert it.manifests == pinned


def test_a_run_that_turns_back_restores_the_lines(it: Story) -> None:
    it.go(NEW)
    pinned = it.manifests
    it.node.kubelet.behaviour[OLD] = Behaviour.EXITS

    status = it.go(OLD)

    assert status.phase == "RolledBack"
    assert it.manifests == pinned
    assert {each.uid for each in status.manifests} == {ManifestUid.KEPT}
    assert it.node.kubelet.replaced == []


@pytest.mark.parametrize("turns_back", [False, True])
def test_a_manifest_written_anew_once_its_line_was_taken_out_costs_no_pod(it: Story, turns_back: bool) -> None:
    """The new kubelet computes the UID by itself; the old one, on the way back, does not."""
    it.go(NEW)
    again = YAML + b"# rendered again\n"
    if turns_back:
        it.node.kubelet.behaviour[OLD] = Behaviour.EXITS
    it.node.calls.before("services.restart containerd.service", lambda: it.node.disk.update({ETCD: again}))

    assert it.go(OLD).phase == ("RolledBack" if turns_back else "Succeeded")

    assert it.node.kubelet.replaced == []
    assert unpin(it.node.disk[ETCD]) == (again if turns_back else None)


def test_a_run_that_turns_back_leaves_no_line(it: Story) -> None:
    it.node.kubelet.behaviour[NEW] = Behaviour.EXITS

    status = it.go(NEW)

    assert (status.phase, status.manifests) == ("RolledBack", ())
    assert it.manifests == (YAML, JSON)
    assert it.go("v1.32.13").phase == "Succeeded"


def test_what_an_older_version_wrote_stays_and_is_told(it: Story) -> None:
    """It wrote the line without a comment, and no record."""
    uid = next(s.pod.uid for s in it.node.inventory().sandboxes if s.pod.name.startswith("etcd"))
    older = pin(YAML, uid).replace(f"  {COMMENT}\n".encode(), b"")
    it.edit(older)
    assert unpin(older) == YAML

    status = it.go(NEW)

    assert it.node.disk[ETCD] == older
    assert ("Kept", ETCD) in {(each.uid, each.path) for each in status.manifests}
    assert it.node.kubelet.replaced == []


def test_an_edit_that_does_not_count_yet_is_told(it: Story) -> None:
    it.go(NEW)
    it.edit(with_env(it.node.disk[ETCD]))

    plan = plan_for(it.node, "v1.34.4", run="next")

    told = [each for each in plan.cautions if each.reason == "StaticPodEditPending"]
    assert [(each.subject, PurePosixPath(ETCD).name in each.detail) for each in told] == [("default/etcd-node-a", True)]


# ── staticPods: Recreate ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def with_pod() -> Story:
    """A node that has a pod from the API besides."""
    pods = [pod_json("web", "nginx")]
    return Story(SimulatedNode(version=OLD, pods=pods, manifests={"etcd.yaml": YAML, "web.json": JSON}))


def test_recreated_pods_are_replaced_and_counted_apart(with_pod: Story) -> None:
    status = with_pod.go(NEW, StaticPodPolicy.RECREATE)

    assert status.phase == "Succeeded"
    assert with_pod.manifests == (YAML, JSON)
    assert sorted(with_pod.node.kubelet.replaced) == ["default/etcd-node-a/etcd", "default/web-node-a/web"]
    counts = status.containers
    assert (counts.baseline, counts.unchanged, counts.restarted, counts.recreated) == (3, 1, 0, 2)
    assert sorted(counts.recreated_list) == sorted(with_pod.node.kubelet.replaced)
    assert "1 of 3 containers are the same instances" in status.message
    assert [c.reason for c in with_pod.plans[0].cautions].count(Reason.STATIC_PODS_RECREATED) == 2
    assert with_pod.edit(with_env(YAML)) == ["etcd"]


def test_recreation_takes_out_the_lines_of_earlier_runs(it: Story) -> None:
    it.go(NEW)

    status = it.go("v1.33.14", StaticPodPolicy.RECREATE)

    assert it.manifests == (YAML, JSON)
    assert (status.phase, status.containers.recreated) == ("Succeeded", 2)
    assert {each.uid for each in status.manifests} == {ManifestUid.REMOVED}


def test_within_a_minor_nothing_is_recreated_that_has_no_line(it: Story) -> None:
    status = it.go("v1.30.15", StaticPodPolicy.RECREATE)

    assert (status.phase, status.containers.recreated, status.containers.unchanged) == ("Succeeded", 0, 2)
    assert it.node.kubelet.replaced == []


def test_the_uid_of_somebody_else_stays_with_its_pod(it: Story) -> None:
    it.edit(YAML.replace(b"  name: etcd\n", b"  name: etcd\n  uid: '0123'\n"))
    it.node.kubelet.replaced.clear()

    status = it.go(NEW, StaticPodPolicy.RECREATE)

    assert it.node.kubelet.replaced == ["default/web-node-a/web"]
    assert status.containers.recreated == 1


def test_a_run_waits_for_recreated_pods_and_turns_back_without_them(it: Story) -> None:
    """The new kubelet ends them, and cannot start them: here, since it does not find the manifests any more."""

    def lose_manifests() -> None:
        for path in (ETCD, WEB):
            it.node.disk[path] = it.node.disk[path].replace(b"ame", b"ome", 1)

    it.node.calls.before("services.start kubelet.service", lose_manifests)

    status = it.go(NEW, StaticPodPolicy.RECREATE)

    assert status.phase == "RolledBack"
    assert "does not run again" in status.message


def test_pods_that_nobody_wants_recreated_are_still_shielded(with_pod: Story) -> None:
    plan = plan_for(with_pod.node, NEW, static_pods=StaticPodPolicy.RECREATE)

    shielded = Shielded.of(plan)

    assert [c.label for c in shielded.containers.values()] == ["default/web/nginx"]
    assert [str(s.pod) for s in shielded.sandboxes.values()] == ["default/web"]
