"""The proof: which stored hashes have to be reproduced, and what is written once all of them are."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import ContainerId, PodUid
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelethash import KubeletVersion, UnsupportedKubelet, hash_container, hash_without_resources
from nodeupgrade.node.plan.hash_rewriting import LARGEST_SPEC, LARGEST_SPECS, Rewriting, newcomers, plan_rewriting
from nodeupgrade.node.plan.plan import PlannedContainer
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, StoredHashes
from tests.builders.containers import CONTAINERS
from tests.builders.planned_run import planned
from tests.builders.sound import NEW, OLD, SPEC, WEB, instance, inventory, pod

RIGHT = hash_container(SPEC, OLD)


def rewriting(*instances: ContainerInstance, body: dict[str, Any] | None = None, old: str = str(OLD)) -> Rewriting:
    pods = [parse_pod(pod() if body is None else body)]
    return plan_rewriting(pods, inventory(*instances), current=KubeletVersion.parse(old), target=NEW)


def only(found: Rewriting) -> PlannedContainer:
    assert found.findings == ()
    (planned,) = found.containers
    return planned


def test_a_proven_container_gets_the_hash_of_the_next_kubelet() -> None:
    planned = only(rewriting(instance(RIGHT)))

    assert planned.before == StoredHashes(container=RIGHT)
    assert planned.after == StoredHashes(container=hash_container(SPEC, NEW))
    assert planned.changes
    assert planned.compared
    assert not planned.may_complete


def proven_by(stored_by: str, *also: str, body: dict[str, Any] | None = None) -> Rewriting:
    """The rewriting of one container with that kubelet's hash, where kubelet 1.30 accepts those of others too."""
    pods = [parse_pod(pod() if body is None else body)]
    stored = inventory(instance(hash_container(pods[0].containers[0].spec, stored_by)))
    others = [KubeletVersion.parse(each) for each in also]
    return plan_rewriting(pods, stored, current=OLD, target=NEW, also_accepted=others)


@pytest.mark.parametrize(
    ("stored_by", "also", "written_by"),
    [
        ("v1.30.14", (), "1.30"),
        ("v1.30.14", ("1.12", "1.30"), "1.30"),
        ("v1.20.0", ("1.20",), "1.30"),  # an equal hash is the running kubelet's own
        ("v1.12.10", ("1.12",), "1.12"),
        ("v1.12.10", ("1.5", "1.13", "1.12"), "1.13"),
        ("v1.33.13", ("1.33",), "1.33"),
    ],
)
def test_the_first_kubelet_that_fits_has_written_it(stored_by: str, also: tuple[str, ...], written_by: str) -> None:
    planned = only(proven_by(stored_by, *also))

    assert planned.written_by == written_by
    assert planned.before.container == hash_container(SPEC, stored_by)
    assert planned.after.container == hash_container(SPEC, NEW)


@pytest.mark.parametrize(
    ("stored_by", "also", "computed_by"),
    [("v1.12.10", (), "1.9 to 1.15"), ("v1.12.10", ("1.8", "1.16"), "1.9 to 1.15"), ("v1.5.0", ("1.6",), "1.5")],
)
def test_what_no_listed_kubelet_wrote_is_refused(stored_by: str, also: tuple[str, ...], computed_by: str) -> None:
    found = proven_by(stored_by, *also)

    assert found.containers == ()
    (finding,), (unproven,) = found.findings, found.unproven
    assert (finding.reason, unproven.finding) == (Reason.STORED_HASH_NOT_REPRODUCED, finding)
    assert unproven.written_by == computed_by.rpartition(" ")[2]
    assert f"it is what kubelet {computed_by} computes" in finding.detail
    assert ("(hash.alsoAccepted)" in finding.detail) == bool(also)


@pytest.mark.parametrize("body", [pod(), pod(containers=[{**SPEC, "resources": {"limits": {"cpu": "a lot"}}}])])
def test_what_no_kubelet_computes_is_told_as_such(body: dict[str, Any]) -> None:
    (unproven,) = rewriting(instance("bad"), body=body).unproven

    assert unproven.written_by is None
    assert "hash.alsoAccepted" not in unproven.finding.detail


def test_a_kubelet_that_cannot_have_hashed_the_spec_has_not_written_it() -> None:
    """1.5 had no such probe; what is not certain about one kubelet's hash does not matter for another's."""
    body = pod(containers=[{**SPEC, "resources": {"limits": {"cpu": "1"}}}])

    assert only(proven_by("v1.30.14", "1.5", body=body)).written_by == "1.30"


# Which roles the kubelet that runs now compares, so that the stored value has to be proven.
ROLES: dict[str, dict[str, Any]] = {
    "regular": {"containers": [SPEC]},
    "sidecar": {"containers": [], "initContainers": [{**SPEC, "restartPolicy": "Always"}]},
    "init": {"containers": [], "initContainers": [SPEC]},
    "ephemeral": {"containers": [], "ephemeralContainers": [SPEC]},
}


@pytest.mark.parametrize(
    ("role", "old", "proven", "rewritten"),
    [
        ("regular", "v1.15.0", True, True),
        ("regular", "v1.30.14", True, True),
        ("regular", "v1.31.14", True, True),
        ("sidecar", "v1.32.13", True, True),
        ("init", "v1.30.14", False, False),
        ("init", "v1.32.13", False, False),
        ("ephemeral", "v1.30.14", False, False),
        ("ephemeral", "v1.32.13", False, False),
    ],
)
def test_what_is_proven_and_what_is_rewritten(role: str, old: str, proven: bool, rewritten: bool) -> None:
    body = pod(**ROLES[role])
    (container,) = parse_pod(body).containers

    wrong = rewriting(instance("bad"), body=body, old=old)
    right = only(rewriting(instance(hash_container(container.spec, old)), body=body, old=old))

    assert [finding.reason for finding in wrong.findings] == [Reason.STORED_HASH_NOT_REPRODUCED] * proven
    assert right.compared == proven
    assert right.may_complete == (role in {"init", "ephemeral"})
    wanted = hash_container(container.spec, NEW) if rewritten else right.before.container
    assert right.after.container == wanted
    if not proven:
        assert only(wrong).after.container == (wanted if rewritten else "bad")


SIDECAR: dict[str, Any] = {"containers": [], "initContainers": [{**SPEC, "restartPolicy": "Always"}]}


@pytest.mark.parametrize(
    ("current", "target", "stored_by", "written"),
    [
        # Right, or left over from a plain exchange across eras: either way the spec is the one it began with.
        ("v1.30.14", "v1.33.13", "v1.30.14", "rewritten"),
        ("v1.31.14", "v1.33.13", "v1.31.14", "rewritten"),
        ("v1.31.14", "v1.33.13", "v1.29.0", "rewritten"),
        ("v1.29.15", "v1.31.14", "v1.30.0", "rewritten"),
        # Neither: the spec was changed since, which the present kubelet does not notice and one from 1.32 on does.
        ("v1.30.14", "v1.33.13", None, "refused"),
        ("v1.31.14", "v1.32.0", None, "refused"),
        ("v1.29.15", "v1.31.14", None, "left"),
        ("v1.33.13", "v1.30.14", None, "refused"),
    ],
)
def test_a_changed_sidecar_is_never_hidden(current: str, target: str, stored_by: str | None, written: str) -> None:
    """What the next kubelet would have done about a change it still does, or the node is refused."""
    body = pod(**SIDECAR)
    (container,) = parse_pod(body).containers
    stored = "bad" if stored_by is None else hash_container(container.spec, stored_by)

    found = plan_rewriting(
        [parse_pod(body)],
        inventory(instance(stored)),
        current=KubeletVersion.parse(current),
        target=KubeletVersion.parse(target),
    )

    if written == "refused":
        (finding,) = found.findings
        assert finding.reason is Reason.STORED_HASH_NOT_REPRODUCED
        assert finding.subject == "default/web/nginx"
        return
    wanted = {"rewritten": hash_container(container.spec, target), "left": stored}
    assert only(found).after.container == wanted[written]


def test_a_pod_that_may_end_may_complete() -> None:
    assert only(rewriting(instance(RIGHT), body=pod(restartPolicy="OnFailure"))).may_complete


ENDS_ONCE, LASTS = ("Always", "Never"), ("Never", "Always")


@pytest.mark.parametrize(
    ("policies", "heeding", "may_complete", "restarts_itself"),
    [
        (ENDS_ONCE, (True, True), True, False),
        (ENDS_ONCE, (False, False), False, True),
        (ENDS_ONCE, (False, True), False, False),
        (LASTS, (True, True), False, True),
        (LASTS, (False, False), True, False),
        (LASTS, (True, False), False, False),
        (("Always", "OnFailure"), (True, True), True, True),
        (("Always", "Always"), (True, False), False, True),
    ],
)
def test_a_policy_of_a_container_counts_for_the_kubelets_that_heed_it(
    policies: tuple[str, str], heeding: tuple[bool, bool], may_complete: bool, restarts_itself: bool
) -> None:
    of_pod, own = policies
    planned = by_policy(of_pod, {"restartPolicy": own}, heeding)

    assert (planned.may_complete, planned.restarts_itself) == (may_complete, restarts_itself)


@pytest.mark.parametrize(
    ("codes", "ends"),
    [
        ({"operator": "In", "values": [42]}, True),
        ({"operator": "In", "values": [0, 42]}, False),
        ({"operator": "NotIn", "values": [0]}, True),
        ({"operator": "NotIn", "values": [42]}, False),
        ({"operator": "In"}, False),
        (None, False),
    ],
)
@pytest.mark.parametrize("own", ["Always", "OnFailure", "Never"])
def test_a_container_with_rules_completes_unless_one_restarts_it_at_code_0(
    own: str, codes: dict[str, Any] | None, ends: bool
) -> None:
    rules = [{"action": "Restart", "exitCodes": codes}]
    planned = by_policy("OnFailure", {"restartPolicy": own, "restartPolicyRules": rules}, (True, True))

    assert planned.may_complete is (ends and own != "Always")
    assert not planned.restarts_itself


def by_policy(of_pod: str, own: dict[str, Any], heeding: tuple[bool, bool]) -> PlannedContainer:
    """The plan of a container with a restart policy of its own, from 1.35 to 1.36."""
    spec, (old, new) = {**SPEC, **own}, map(KubeletVersion.parse, ("v1.35.1", "v1.36.1"))
    pods, stored = [parse_pod(pod(containers=[spec], restartPolicy=of_pod))], instance(hash_container(spec, old))
    return only(plan_rewriting(pods, inventory(stored), current=old, target=new, heeding=heeding))


def test_a_sidecar_never_completes_whatever_its_pod_does() -> None:
    """It ends when its pod is over, at the kubelet's request."""
    body = pod(restartPolicy="Never", **ROLES["sidecar"])
    (container,) = parse_pod(body).containers
    stored = hash_container(container.spec, "v1.32.13")

    assert not only(rewriting(instance(stored), body=body, old="v1.32.13")).may_complete


def over(phase: str) -> dict[str, Any]:
    return {**pod(), "status": {"phase": phase}}


def deleted() -> dict[str, Any]:
    body = pod()
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def renamed() -> dict[str, Any]:
    return pod(containers=[{**SPEC, "name": "other"}])


def recreated() -> dict[str, Any]:
    """A pod of the same name with another UID, as a StatefulSet makes it."""
    body = pod()
    return {**body, "metadata": {**body["metadata"], "uid": "another"}}


def unhashable() -> dict[str, Any]:
    return pod(containers=[{**SPEC, "resources": {"limits": {"cpu": "a lot"}}}])


@pytest.mark.parametrize(
    ("state", "value", "body", "reason"),
    [
        (ContainerState.RUNNING, "bad", pod(), Reason.STORED_HASH_NOT_REPRODUCED),
        (ContainerState.RUNNING, None, pod(), Reason.STORED_HASH_NOT_REPRODUCED),
        (ContainerState.RUNNING, RIGHT, unhashable(), Reason.STORED_HASH_NOT_REPRODUCED),
        (ContainerState.CREATED, RIGHT, pod(), Reason.POD_IN_TRANSITION),
        (ContainerState.UNKNOWN, RIGHT, pod(), Reason.POD_IN_TRANSITION),
        (ContainerState.RUNNING, RIGHT, deleted(), Reason.POD_IN_TRANSITION),
        (ContainerState.RUNNING, RIGHT, over("Failed"), Reason.POD_IN_TRANSITION),
        (ContainerState.RUNNING, RIGHT, recreated(), Reason.UNKNOWN_CONTAINER),
        (ContainerState.RUNNING, RIGHT, renamed(), Reason.UNKNOWN_CONTAINER),
    ],
)
def test_a_finding_names_the_container(
    state: ContainerState, value: str | None, body: dict[str, Any], reason: Reason
) -> None:
    found = rewriting(instance(value, state=state), body=body)

    assert found.containers == ()
    (finding,) = found.findings
    assert (finding.reason, finding.subject) == (reason, "default/web/nginx")


def test_what_has_exited_is_nobodys_business() -> None:
    found = rewriting(instance("bad", state=ContainerState.EXITED), body=renamed())

    assert (found.containers, found.findings) == ((), ())


@pytest.mark.parametrize(("created_at", "left_over"), [(1, True), (3, False)])
def test_what_was_created_and_never_started_is_nobodys_business_once_a_later_one_runs(
    created_at: int, *, left_over: bool
) -> None:
    """A kubelet whose call to start it was lost creates another one, and keeps this one as its last dead one."""
    runs = replace(instance(RIGHT), created_at=2)
    created = replace(runs, id=ContainerId("never-started"), state=ContainerState.CREATED, created_at=created_at)

    found = rewriting(created, runs)

    assert only(replace(found, findings=())).id == runs.id
    assert [finding.reason for finding in found.findings] == ([] if left_over else [Reason.POD_IN_TRANSITION])


def test_what_may_run_any_moment_is_known_with_both_its_hashes() -> None:
    (awaited,) = rewriting(instance(RIGHT, state=ContainerState.EXITED)).awaited

    assert (awaited.name, awaited.before, awaited.after) == ("nginx", RIGHT, hash_container(SPEC, NEW))
    assert rewriting(instance(RIGHT)).awaited == ()


@pytest.mark.parametrize(
    ("target", "stored", "after"),
    [
        ("v1.28.15", "123", hash_without_resources(SPEC, "v1.28.15")),
        ("v1.28.15", None, None),
        ("v1.33.13", "123", "123"),
    ],
)
def test_the_hash_without_resources_follows_where_it_is_used_and_is_never_added(
    target: str, stored: str | None, after: str | None
) -> None:
    found = plan_rewriting(
        [parse_pod(pod())],
        inventory(instance(RIGHT, without_resources=stored)),
        current=OLD,
        target=KubeletVersion.parse(target),
    )

    assert only(found).after.without_resources == after


def test_a_mirror_pod_is_known_by_the_uid_of_its_static_pod() -> None:
    body = pod()
    body["metadata"] |= {
        "uid": "of the mirror",
        "annotations": {"kubernetes.io/config.mirror": "uid-web", "kubernetes.io/config.hash": "uid-web"},
    }

    assert only(rewriting(instance(RIGHT), body=body)).pod.uid == "uid-web"


def test_an_unknown_version_is_not_guessed_at() -> None:
    with pytest.raises(UnsupportedKubelet):
        rewriting(instance(RIGHT), old="v1.99.0")


@given(st.lists(CONTAINERS, min_size=1, max_size=3), st.data())
def test_all_is_planned_as_the_next_kubelet_hashes_it_or_the_wrong_one_is_named(
    specs: list[dict[str, Any]], data: st.DataObject
) -> None:
    specs = [{**spec, "name": f"c{number}", "image": "i"} for number, spec in enumerate(specs)]
    wrong = data.draw(st.sets(st.sampled_from([spec["name"] for spec in specs])))
    instances = [
        instance("bad" if spec["name"] in wrong else hash_container(spec, OLD), name=spec["name"]) for spec in specs
    ]

    found = rewriting(*instances, body=pod(containers=specs))

    assert {finding.subject for finding in found.findings} == {f"default/web/{name}" for name in wrong}
    assert {c.name: c.after.container for c in found.containers} == {
        spec["name"]: hash_container(spec, NEW) for spec in specs if spec["name"] not in wrong
    }


def test_of_more_pods_that_came_than_there_is_time_for_the_small_ones_are_told() -> None:
    """Whoever creates pods decides how many come, and how large they are."""
    _, plan = planned()
    large = {**SPEC, "env": [{"name": "FILLS", "value": "x" * (LARGEST_SPEC - 1024)}]}
    came = [
        parse_pod(pod(replace(WEB, name=f"late-{i:02}", uid=PodUid(f"late-{i:02}")), containers=[spec]))
        for i, spec in enumerate([large] * 40 + [SPEC])
    ]

    told = newcomers(plan, came)

    assert PodUid("late-40") in told.pods
    assert len(told.pods) == 1 + LARGEST_SPECS // LARGEST_SPEC
