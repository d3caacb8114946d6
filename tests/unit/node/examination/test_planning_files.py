"""Tests plans that exchange files together with the kubelet."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.kubelet.layout import KubeletLayout
from nodeupgrade.kubelethash import KubeletVersion, default_static_container, hash_container, hash_manifest_container
from nodeupgrade.node.examination.planning import Examination, examine
from nodeupgrade.node.examination.preview import preview
from tests.builders.file_cases import CONFIG, digest_of, given, with_setting
from tests.builders.node_cases import pods
from tests.builders.sound import SPEC, facts, instance, inventory, kubelet, readiness, request, sandbox

FROM, TO = KubeletVersion.parse("v1.29.14"), KubeletVersion.parse("v1.30.14")
ETCD = PodRef(namespace="default", name="etcd-node-a", uid=PodUid("0" * 32))
MANIFEST = b"""\
kind: Pod
metadata:
  name: etcd
spec:
  containers:
  - {name: etcd, image: 'etcd:3', resources: {requests: {cpu: 100m}}}
"""
ON, OFF = (with_setting(config=b"featureGates: {InPlacePodVerticalScaling: %s}" % each) for each in (b"true", b"false"))


def hash_by(layout: KubeletLayout, version: KubeletVersion) -> str:
    written = {"name": "etcd", "image": "etcd:3", "resources": {"requests": {"cpu": "100m"}}}
    read = default_static_container(written, host_network=False, in_place_resize=layout.resizes_in_place)
    return hash_manifest_container(read, version)


def examined(before: KubeletLayout, after: KubeletLayout, **fields: Any) -> Examination:
    """A node with one static pod, whose kubelet is exchanged together with its configuration."""
    held = inventory(
        instance(hash_by(before, FROM), name="etcd", ref=ETCD), sandboxes=(sandbox(ETCD, config_source="file"),)
    )
    asked = replace(request(), spec=replace(request().spec, to_version=str(TO)))
    seen = facts(
        spec=asked.spec,
        pods=(),
        inventory=held,
        kubelet=kubelet(current=FROM, staged_version=str(TO)),
        readiness=readiness(current=FROM, target=TO, layout=after),
        files=given(before=before, after=after),
        **fields,
    )
    return examine(asked, seen, before, {"/etc/kubernetes/static/etcd.yaml": MANIFEST})


@pytest.mark.parametrize(("before", "after"), [(OFF, ON), (ON, OFF), (ON, ON), (OFF, OFF)])
def test_a_gate_in_the_new_file_decides_the_new_hash_and_only_that(before: KubeletLayout, after: KubeletLayout) -> None:
    examination = examined(before, after)

    assert examination.plan is not None, [str(finding) for finding in examination.findings]
    (container,) = examination.plan.containers
    assert container.before.container == hash_by(before, FROM)
    assert container.after.container == hash_by(after, TO)
    assert [pin.uid for pin in examination.plan.pins] == [ETCD.uid]
    [change] = examination.plan.exchanged
    assert (change.before, change.after) == (digest_of(b"maxPods: 110\n"), digest_of(b"maxPods: 120\n"))
    shown = preview(examination)
    assert shown is not None
    assert [(file.path, file.before, file.after) for file in shown.files] == [(CONFIG, change.before, change.after)]


def test_the_gate_makes_a_difference() -> None:
    """Otherwise the test above would prove nothing."""
    assert hash_by(ON, TO) != hash_by(OFF, TO)
    assert hash_by(ON, FROM) != hash_by(OFF, FROM)


@pytest.mark.parametrize(
    ("before", "after", "versions"),
    [("maxPods: -1", "maxPods: 1", [FROM]), ("maxPods: 9", "maxPods: 1", []), ("maxPods: 9", "maxPods: -1", [TO])],
)
def test_each_kubelet_admits_pods_by_its_own_file(before: str, after: str, versions: list[KubeletVersion]) -> None:
    refusals = examined(with_setting(config=before.encode()), with_setting(config=after.encode())).refusals

    assert {finding.reason for finding in refusals} == ({Reason.POD_WOULD_NOT_BE_ADMITTED} if versions else set())
    assert len(refusals) == len(versions)


@pytest.mark.parametrize(("after", "restarts_itself"), [(b"{}", True), (b"featureGates: {AllBeta: false}", False)])
def test_a_container_restarts_itself_if_both_kubelets_heed_its_policy(after: bytes, restarts_itself: bool) -> None:
    old, new = map(KubeletVersion.parse, ("v1.35.1", "v1.36.1"))
    spec, then = {**SPEC, "restartPolicy": "Always"}, with_setting(config=after)
    asked = replace(request(), spec=replace(request().spec, to_version=str(new)))
    seen = facts(
        spec=asked.spec,
        pods=pods(containers=[spec], restartPolicy="Never"),
        inventory=inventory(instance(hash_container(spec, old))),
        kubelet=kubelet(current=old, staged_version=str(new)),
        readiness=readiness(current=old, target=new, layout=then),
    )
    [container] = examine(asked, seen, then, {}).rewriting.containers

    assert container.restarts_itself is restarts_itself
