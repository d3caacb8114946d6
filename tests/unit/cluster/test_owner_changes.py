"""What counts as a change by an owner: only what no kubelet can write, and only for what it is a change of."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.json import Json
from nodeupgrade.api.task.status import OwnerChange
from nodeupgrade.api.values import Digest, PodUid
from nodeupgrade.cluster.owner_changes import (
    Evidence,
    Manifest,
    Planned,
    StaticSource,
    owner_change,
    owner_changes,
    seen_in,
    specs_of,
    was_deleted,
    was_removed,
    was_taken_back,
)
from nodeupgrade.cluster.pods import for_watch, parse_pod
from tests.doubles.node import pod_json

WEB, DB = pod_json("web", "nginx", "log", sidecars=("mesh",)), pod_json("db", "postgres")
MANIFEST = StaticSource(pod=PodUid("uid-etcd"), path="/m/etcd.yaml", digests=(Digest("found"), Digest("pinned")))
PLANNED = Planned(containers=specs_of(map(parse_pod, (WEB, DB))), manifests=(MANIFEST,), resizes_restart=False)
EVERYTHING = [
    *((PodUid("uid-web"), name) for name in (None, "nginx", "log", "mesh", "debug")),
    *((PodUid("uid-db"), name) for name in (None, "postgres")),
    *((PodUid("uid-etcd"), name) for name in (None, "etcd")),
]


def shown(pod: Json, **changes: Any) -> Evidence:
    """What the API server shows once something of a pod is different, in full or as a watch keeps it."""
    now = deepcopy(dict(pod))
    for section, change in changes.items():
        now[section] = {**now.get(section, {}), **change}
    seen = seen_in(PLANNED, [parse_pod(now), parse_pod(DB)])
    assert seen_in(PLANNED, map(parse_pod, map(for_watch, (now, DB)))) == seen
    return seen


def with_container(name: str, changes: Json, where: str = "containers") -> Mapping[str, Any]:
    return {where: [each | changes if each["name"] == name else each for each in WEB["spec"][where]]}


def excused(evidence: Evidence) -> dict[tuple[PodUid, str | None], OwnerChange]:
    found = {each: owner_change(PLANNED, evidence, *each) for each in EVERYTHING}
    return {each: change for each, change in found.items() if change is not None}


NEW_IMAGE: Json = {"image": "other:2"}
RESIZED: Json = {"resources": {"limits": {"memory": "1Gi"}}}
RESTARTS: Json = {"resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]}
DEBUG = {"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}
OF_WEB = {(PodUid("uid-web"), name): OwnerChange.POD_DELETED for name in (None, "nginx", "log", "mesh", "debug")}


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (shown(WEB, spec=with_container("nginx", NEW_IMAGE)), {("uid-web", "nginx"): OwnerChange.IMAGE_CHANGED}),
        (
            shown(WEB, spec=with_container("mesh", NEW_IMAGE, "initContainers")),
            {("uid-web", "mesh"): OwnerChange.IMAGE_CHANGED},
        ),
        (shown(WEB, spec=with_container("log", RESIZED)), {}),
        (shown(WEB, spec=with_container("log", RESIZED | RESTARTS)), {("uid-web", "log"): OwnerChange.RESIZED}),
        (shown(WEB, spec=DEBUG), {}),
        (shown(WEB, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), OF_WEB),
        (seen_in(PLANNED, [], frozenset({PodUid("uid-web")})), OF_WEB),
        (Evidence(manifests=(Manifest(path="/m/etcd.yaml", digests=(Digest("pinned"),)),)), {}),
        (
            Evidence(manifests=(Manifest(path="/m/etcd.yaml", digests=(Digest("edited"),)),)),
            {("uid-etcd", name): OwnerChange.MANIFEST_CHANGED for name in (None, "etcd")},
        ),
        (
            Evidence(manifests=(Manifest(path="/m/etcd.yaml", digests=()),)),
            {("uid-etcd", name): OwnerChange.MANIFEST_REMOVED for name in (None, "etcd")},
        ),
    ],
    ids=[
        "image",
        "image of a sidecar",
        "resources",
        "resources with a restart",
        "debug",
        "deleted",
        "gone",
        "pinned",
        "edited",
        "removed",
    ],
)
def test_each_change_excuses_what_it_is_a_change_of_and_nothing_else(
    evidence: Evidence, expected: Mapping[tuple[PodUid, str | None], OwnerChange]
) -> None:
    assert excused(evidence) == expected


def test_a_resize_in_place_is_named_and_explains_the_loss_of_memory_only() -> None:
    """A kubelet that ends a container does not do so for that."""
    evidence = shown(WEB, spec=with_container("log", RESIZED))
    log = PodUid("uid-web"), "log"

    assert owner_change(PLANNED, evidence, *log, ends=False) is OwnerChange.RESIZED
    assert owner_change(replace(PLANNED, resizes_restart=True), evidence, *log) is OwnerChange.RESIZED
    assert list(owner_changes(PLANNED, evidence)) == [(*log, OwnerChange.RESIZED)]


def test_a_container_that_was_added_is_named_although_it_excuses_nothing() -> None:
    assert list(owner_changes(PLANNED, shown(WEB, spec=DEBUG))) == [
        (PodUid("uid-web"), "debug", OwnerChange.EPHEMERAL_CONTAINER_ADDED)
    ]


@pytest.mark.parametrize(
    "pod",
    [
        {**WEB, "status": {"phase": "Running", "containerStatuses": [{"name": "nginx", "image": "other:2"}]}},
        {**WEB, "metadata": {**WEB["metadata"], "annotations": {"nodeupgrade.dev/image-changed": "nginx"}}},
        {**WEB, "metadata": {**WEB["metadata"], "uid": "again"}, "spec": with_container("nginx", NEW_IMAGE)},
        {
            **WEB,
            "metadata": {
                "name": "web",
                "annotations": {"kubernetes.io/config.mirror": "uid-web", "kubernetes.io/config.hash": "uid-web"},
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "uid": "mirror",
            },
            "spec": with_container("nginx", NEW_IMAGE),
        },
    ],
    ids=["a status", "an annotation", "another pod of the same name", "a mirror pod that claims the UID"],
)
def test_what_a_kubelet_can_write_is_no_evidence(pod: Json) -> None:
    assert seen_in(PLANNED, [parse_pod(pod)]) == Evidence()


STATUSES = [{"name": "nginx", "image": "other:2", "resources": {}}]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "phase": st.sampled_from(["Running", "Failed"]),
            "resize": st.sampled_from(["Proposed", "InProgress"]),
            "reason": st.text(max_size=3),
            "containerStatuses": st.just(STATUSES),
            "ephemeralContainerStatuses": st.just(STATUSES),
        },
    )
)
def test_no_status_is_evidence(status: Json) -> None:
    assert seen_in(PLANNED, [parse_pod({**WEB, "status": status})]) == Evidence()


def test_a_change_that_is_taken_back_is_known_and_excuses_nothing_and_what_is_planned_later_counts() -> None:
    there = shown(WEB, spec=with_container("nginx", NEW_IMAGE))
    back = seen_in(PLANNED, [parse_pod(WEB)], before=there).and_before(there)

    assert excused(there) == {("uid-web", "nginx"): OwnerChange.IMAGE_CHANGED}
    assert excused(back) == {}
    assert was_taken_back(PLANNED, back, PodUid("uid-web"), "nginx")
    assert not was_taken_back(PLANNED, there, PodUid("uid-web"), "nginx")
    assert excused(shown(WEB).and_before(there)) == excused(there), "a pod that is not seen says nothing"
    replanned = PLANNED.and_later(Planned(containers=there.specs))
    assert owner_change(replanned, there, PodUid("uid-web"), "nginx") is None


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}


def test_a_job_s_pod_that_a_kubelet_failed_before_it_was_deleted_is_no_owners_wish() -> None:
    """Its finalizer keeps it in the API, with the grace period that a finished pod gets: none."""
    metadata = DELETED | {"deletionGracePeriodSeconds": 0, "finalizers": ["batch.kubernetes.io/job-tracking"]}

    assert not was_deleted(parse_pod({"metadata": metadata, "status": {"phase": "Failed"}}))
    assert was_deleted(parse_pod({"metadata": metadata, "status": {"phase": "Running"}})), "by force"


@pytest.mark.parametrize(
    ("status", "deleted"),
    [
        ({"phase": "Running"}, True),
        ({"phase": "Failed"}, True),
        ({"phase": "Failed", "reason": "NodeAffinity"}, False),
        ({"phase": "Failed", "reason": "Evicted"}, False),
        ({"conditions": [{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}]}, True),
        ({"conditions": [{"type": "DisruptionTarget", "reason": "DeletionByTaintManager"}]}, False),
    ],
)
def test_a_deletion_that_a_kubelet_brought_about_is_none(status: Json, deleted: bool) -> None:
    assert was_deleted(parse_pod({"metadata": DELETED, "status": status})) is deleted
    assert not was_deleted(parse_pod({"metadata": {}, "status": status}))


TAINTED = {"type": "DisruptionTarget", "reason": "DeletionByTaintManager"}
MIRROR = {"kubernetes.io/config.mirror": "0123", "kubernetes.io/config.hash": "0123"}


@pytest.mark.parametrize(
    ("metadata", "status", "removed"),
    [
        ({}, {"phase": "Running"}, True),
        ({}, {"phase": "Pending"}, True),
        ({}, {"phase": "Failed"}, False),
        ({}, {"phase": "Succeeded"}, False),
        ({}, {"phase": "Running", "reason": "Evicted"}, False),
        ({}, {"phase": "Running", "conditions": [TAINTED]}, False),
        ({"annotations": MIRROR}, {"phase": "Running"}, False),
        (DELETED, {"phase": "Succeeded"}, True),
        (DELETED | {"deletionGracePeriodSeconds": 0}, {"phase": "Running"}, True),
        (DELETED | {"deletionGracePeriodSeconds": 0}, {"phase": "Failed"}, False),
        (DELETED, {"phase": "Failed", "reason": "OutOfcpu"}, False),
    ],
)
def test_a_pod_that_is_gone_was_deleted_unless_it_was_over_before(metadata: Json, status: Json, removed: bool) -> None:
    assert was_removed(parse_pod({"metadata": metadata, "status": status})) is removed


def test_a_deletion_that_may_be_an_eviction_without_a_mark_proves_nothing() -> None:
    later = Planned(may_be_evicted=(PodUid("uid-web"),))
    gone = seen_in(PLANNED.and_later(later), [], frozenset({PodUid("uid-web"), PodUid("uid-db")}))

    assert gone.deleted == ("uid-db",)
