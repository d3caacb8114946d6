"""Static pods, there and back: what is written into manifests, when it is taken out again, and when an edit counts."""

import json
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath

import pytest

from nodeupgrade.api.task.status import ManifestUid, TaskStatus
from nodeupgrade.domain.node.hashes.own_uids import RECORD
from nodeupgrade.domain.node.hashes.uid_line import COMMENT, pin, unpin
from nodeupgrade.domain.node.plan import Limits, RunPlan
from nodeupgrade.domain.node.run.journal import Outcome, parse
from nodeupgrade.domain.node.run.run_status import run_status
from nodeupgrade.simulation.node import Behaviour, SimulatedNode, manifest, plan_for, supervise
from nodeupgrade.simulation.node.containers.pods import MANIFESTS

OLD, NEW = "v1.30.14", "v1.33.13"
LIMITS = Limits(settle=5.0)
ETCD, WEB = f"{MANIFESTS}/etcd.yaml", f"{MANIFESTS}/web.json"
YAML = manifest("etcd", "etcd")
JSON = json.dumps(
    {"kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
).encode()
ADDED = b"    env: [{name: ADDED, value: x}]\n"


@dataclass
class Story:
    """A node with two static pods, upgraded one way and the other."""

    node: SimulatedNode
    plans: list[RunPlan] = field(default_factory=list)

    def go(self, version: str, *, shield: bool = True) -> TaskStatus:
        plan = plan_for(self.node, version, run=f"run-{len(self.plans) + 1}", limits=LIMITS)
        self.plans.append(plan if shield else replace(plan, shield=None))
        self.node.journal.data = b""
        report = supervise(self.node, self.plans[-1])
        assert report is not None
        assert report.restarted == 0, report
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
    edited = data.replace(b"  - {name: etcd, image: 'registry.example/etcd:1'}", b"  - name: etcd\n    image: 'registry.example/etcd:1'\n" + ADDED)
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


def test_a_forged_record_costs_no_pod(it: Story) -> None:
    """The shield refuses to stop what the kubelet takes for another pod, and the run turns back, manifests included."""
    it.go(NEW)
    pinned = it.manifests
    it.node.disk[str(RECORD)] = it.node.disk[str(RECORD)].replace(b'"v1.30.14"', b'"v1.32.13"')

    status = it.go("v1.32.13")

    assert (status.phase, status.containers.restarted) == ("RolledBack", 0)
    assert it.node.kubelet.replaced == []
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
