"""Which mirror pods stand for a static pod, and which pods only say so."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.agent_pods import RUN_LABEL, agents_of
from nodeupgrade.cluster.pods import CONFIG_HASH, CONFIG_MIRROR, Pod, parse_pod
from nodeupgrade.kubelethash import hash_container
from nodeupgrade.node.plan.hash_rewriting import newcomers, plan_rewriting
from nodeupgrade.node.plan.mirror_pods import each_for_itself, without_pretenders
from tests.builders.planned_run import planned
from tests.builders.sound import NEW, OLD, SPEC, WEB, instance, inventory, pod, request, sandbox
from tests.builders.static_pod_manifests import PLAIN, UID

ETCD = PodRef(namespace="kube-system", name="etcd-node-a", uid=PodUid(UID))
PRETENDER = replace(WEB, name="zzz")
RUNS_ETCD = sandbox(ETCD, config_source="file", static_hash=ETCD.uid)


def mirror(ref: PodRef, **fields: Any) -> Pod:
    """A pod that says that it is the mirror pod of a static pod with the UID of ``ref``."""
    annotations = {CONFIG_MIRROR: ref.uid, CONFIG_HASH: ref.uid}
    body = pod(ref, **fields)
    body["metadata"] |= {"uid": f"of the mirror {ref.name}", "annotations": annotations}
    return parse_pod(body)


def names(pods: tuple[Pod, ...]) -> list[str]:
    return [each.ref.name for each in pods]


@pytest.mark.parametrize("known_by", ["its sandbox", "a sandbox from an address", "its manifest", "an earlier sandbox"])
def test_a_mirror_pod_stands_for_what_the_node_has_by_its_name(known_by: str) -> None:
    """An edited static pod has a mirror pod with the new UID before its sandbox has it."""
    earlier = replace(ETCD, uid=PodUid("0123"))
    sandboxes = {
        "its sandbox": (RUNS_ETCD,),
        "a sandbox from an address": (replace(RUNS_ETCD, config_source="http"),),
        "its manifest": (),
        "an earlier sandbox": (replace(RUNS_ETCD, pod=earlier),),
    }[known_by]
    manifests = {"/m/etcd.yaml": PLAIN.encode()} if known_by == "its manifest" else {}
    pods = (parse_pod(pod()), mirror(ETCD))

    assert without_pretenders(pods, inventory(instance(None), sandboxes=sandboxes), manifests, "Node-A") == pods


@pytest.mark.parametrize("uid", [WEB.uid, ETCD.uid, PodUid("nobody's"), PodUid("")])
def test_what_mirrors_nothing_is_left_out(uid: PodUid) -> None:
    own, etcd = parse_pod(pod()), mirror(ETCD)
    runs = inventory(instance(None), sandboxes=(sandbox(WEB), sandbox(replace(PRETENDER, uid=PodUid("2"))), RUNS_ETCD))

    left = without_pretenders((own, etcd, mirror(replace(PRETENDER, uid=uid))), runs, {}, "node-a")

    assert left == (own, etcd)


def test_nor_does_one_static_pod_speak_for_another_pod() -> None:
    others = replace(ETCD, uid=WEB.uid)

    assert without_pretenders((mirror(others),), inventory(sandboxes=(sandbox(WEB), RUNS_ETCD)), {}, "node-a") == ()


def test_where_the_runtime_does_not_know_nobody_speaks_for_two() -> None:
    own, late = parse_pod(pod()), replace(PRETENDER, uid=PodUid("late"))

    assert names(each_for_itself((own, mirror(PRETENDER)), ())) == ["web"]
    assert names(each_for_itself((mirror(late), mirror(replace(late, name="other"))), ())) == []
    assert names(each_for_itself((mirror(late), mirror(replace(late, name="other"))), (late,))) == ["zzz"]


def test_a_container_has_the_spec_of_its_own_pod() -> None:
    """Whatever another pod with its UID says."""
    other = mirror(PRETENDER, containers=[{**SPEC, "image": "other"}])

    found = plan_rewriting(
        (parse_pod(pod()), other), inventory(instance(hash_container(SPEC, OLD))), current=OLD, target=NEW
    )

    assert [c.after.container for c in found.containers] == [hash_container(SPEC, NEW)]


def test_nor_is_the_hash_of_one_that_came_told_by_another() -> None:
    _, plan = planned()
    late = replace(WEB, name="late", uid=PodUid("late"))
    came, other = parse_pod(pod(late)), mirror(replace(late, name="zzz"), containers=[{**SPEC, "image": "other"}])

    assert newcomers(plan, (came, other)) == newcomers(plan, (came,))


def test_a_runs_own_pods_are_pods_in_the_operators_namespace() -> None:
    asked = request()
    own = replace(WEB, namespace=asked.namespace)

    def labelled(shown: Pod) -> Pod:
        metadata = {**shown.metadata, "labels": {RUN_LABEL: "run-1"}}
        return parse_pod({**shown.raw, "metadata": metadata})

    pods = (labelled(parse_pod(pod(own))), labelled(parse_pod(pod(ETCD))), labelled(mirror(replace(own, name="zzz"))))

    assert [agents_of(asked.run_id, asked.namespace, (each,)) for each in pods] == [{own.uid}, set(), set()]
