"""What is said about a node that is only looked at."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.task.status import Preview
from nodeupgrade.api.values import PodRef, PodUid
from nodeupgrade.cluster.agent_pods import RUN_LABEL
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.kubelet.layout import read_layout
from nodeupgrade.kubelethash import KubeletVersion, hash_container
from nodeupgrade.node.examination.planning import examine
from nodeupgrade.node.examination.preview import preview
from nodeupgrade.node.runtimes.inventory import Inventory
from tests.builders.sound import NEW, OLD, SPEC, WEB, facts, instance, inventory, kubelet, pod, request, sandbox

REQUEST = request()
AGENT = PodRef(namespace="nodeupgrade-system", name="agent", uid=PodUid("uid-agent"))
STATIC = PodRef(namespace="default", name="etcd-node-a", uid=PodUid("0123456789abcdef"))
STORED = hash_container(SPEC, OLD)


def seen(**fields: Any) -> Preview | None:
    return preview(examine(REQUEST, facts(**fields), read_layout(()), {}))


def forecast(**fields: Any) -> dict[str, str]:
    found = seen(**fields)
    assert found is not None
    assert found.would_restart == len(found.would_restart_list)
    return {each.container: each.why for each in found.would_restart_list}


def test_a_sound_node_across_eras() -> None:
    found = seen()

    assert found is not None
    assert (found.rewritten, found.unchanged, found.would_restart) == (1, 0, 1)
    assert (found.static_pods, found.removed_flags) == (0, ())


def test_the_pod_of_the_agent_that_looks_does_not_count() -> None:
    body = pod(AGENT)
    body["metadata"]["labels"] = {RUN_LABEL: "run-1"}
    both = inventory(instance(STORED), instance(STORED, ref=AGENT))

    found = seen(pods=(parse_pod(pod()), parse_pod(body)), inventory=both)

    assert found == seen()


@pytest.mark.parametrize("version", ["v1.99.0", "v1.34.0-rc.1"])
def test_nothing_is_said_about_a_version_whose_hashes_are_not_known(version: str) -> None:
    assert seen(target=KubeletVersion.parse(version)) is None
    assert seen(kubelet=kubelet(current=KubeletVersion.parse(version))) is None
    assert seen(kubelet=kubelet(current=None)) is None


def test_an_altered_hash_is_a_restart_and_no_rewriting() -> None:
    assert forecast(inventory=inventory(instance("bad"))) == {
        "default/web/nginx": f"its stored hash bad is not the {hash_container(SPEC, NEW)} that kubelet {NEW} computes"
    }
    found = seen(inventory=inventory(instance("bad")))
    assert found is not None
    assert (found.rewritten, found.unchanged) == (0, 0)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"nodeSelector": {"disk": "hdd"}}, "any kubelet start would kill it"),
        ({"initContainers": [{"name": "first", "image": "x", "resources": {"limits": {"cpu": "1"}}}]}, "QoS class"),
    ],
)
def test_a_pod_that_the_next_kubelet_kills_is_lost_though_its_hash_is_right(spec: dict[str, Any], said: str) -> None:
    """Within era C the hash of this container never changes; the pod is lost all the same."""
    before, after = ("v1.30.13", "v1.30.14") if "nodeSelector" in spec else ("v1.15.0", "v1.17.17")
    current, target = KubeletVersion.parse(before), KubeletVersion.parse(after)
    body = pod(**spec)
    body["spec"]["containers"] = [{**SPEC, "resources": {}}]

    whys = forecast(
        pods=(parse_pod(body),),
        inventory=inventory(instance(hash_container(body["spec"]["containers"][0], current))),
        kubelet=kubelet(current=current, staged_version=after),
        target=target,
    )

    assert said in whys["default/web/nginx"]


def test_all_reasons_are_told_in_as_many_characters_as_there_are() -> None:
    static = replace(sandbox(STATIC), config_source="file", static_hash=STATIC.uid)
    body = pod(STATIC, nodeSelector={"disk": "a" * 63})
    body["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": STATIC.uid,
        "kubernetes.io/config.hash": STATIC.uid,
    }
    held = Inventory(containers=(instance(STORED, ref=STATIC),), sandboxes=(static,))

    (why,) = forecast(pods=(parse_pod(body),), inventory=held).values()

    assert why.startswith("kubelet 1.33 gives its static pod another UID")
    assert "; besides, " in why
    assert 190 < len(why) <= 256
    assert "requires…" in why


def test_a_static_pod_keeps_its_uid_within_a_minor() -> None:
    static = replace(sandbox(STATIC), config_source="file", static_hash=STATIC.uid)
    body = pod(STATIC)
    body["metadata"]["annotations"] = {
        "kubernetes.io/config.mirror": STATIC.uid,
        "kubernetes.io/config.hash": STATIC.uid,
    }
    held = Inventory(containers=(instance(STORED, ref=STATIC),), sandboxes=(static,))

    assert forecast(pods=(parse_pod(body),), inventory=held, target=KubeletVersion.parse("v1.30.15")) == {}


def test_the_list_is_in_the_order_of_names() -> None:
    refs = [PodRef(namespace="default", name=name, uid=PodUid(f"uid-{name}")) for name in ("b", "c", "a")]
    held = inventory(*(instance(STORED, ref=ref) for ref in refs))

    assert list(forecast(pods=tuple(parse_pod(pod(ref)) for ref in refs), inventory=held)) == [
        f"default/{name}/nginx" for name in "abc"
    ]


def test_a_container_that_is_not_known_is_left_to_the_hazards() -> None:
    assert forecast(inventory=inventory(instance(STORED, ref=WEB, name="stranger"))) == {}
