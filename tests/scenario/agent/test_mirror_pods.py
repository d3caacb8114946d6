"""Pods that say of themselves that they are mirror pods, as whoever may create pods may have one say."""

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.run_settings import ShieldPolicy, VerifySettings
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.values import RunId
from nodeupgrade.cluster.agent_pods import RUN_LABEL
from nodeupgrade.cluster.kube_api import Keep
from nodeupgrade.cluster.pods import CONFIG_HASH, CONFIG_MIRROR
from tests.doubles.node import pod_json
from tests.doubles.node.kubelet import program
from tests.scenario.agent.harness import NEW, OLD, PODS, RUN, World, make_world, upgraded

Start = Callable[..., World]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    def world_of(*pods: Json, old: str = OLD, new: str = NEW) -> World:
        world = make_world(tmp_path, monkeypatch, old=old, new=new, pods=tuple(map(dict, pods)))
        world.node.disk["/opt/kubelet-new"] = program(new)
        return world

    return world_of


def claiming(uid: str | None, spec: Json | None = None, **metadata: Any) -> Json:
    """A pod that no kubelet runs, and that a finalizer keeps; it comes after its victim in every list."""
    pod = pod_json("zzz", "nginx", "log")
    pod["metadata"] |= {
        "uid": "f6d2a5c8-0000-4000-8000-000000000000",
        "annotations": {CONFIG_MIRROR: "x", **({} if uid is None else {CONFIG_HASH: uid})},
        "finalizers": ["example.com/stays"],
        **metadata,
    }
    pod["spec"] = {**deepcopy(dict(spec or pod["spec"])), "nodeName": "node-a"}
    pod["status"] = {"phase": "Pending"}
    return pod


def with_each(pod: Json, **fields: object) -> Json:
    """The spec of a pod, with something else about each of its containers."""
    return {**pod["spec"], "containers": [{**each, **fields} for each in pod["spec"]["containers"]]}


def uid_of(world: World, name: str) -> str:
    return next(sandbox.pod.uid for sandbox in world.before.sandboxes if sandbox.pod.name == name)


def beside(world: World, *more: Json) -> None:
    """Have the API server show more pods of the node."""
    everything = world.kube.list_pods_on_node

    async def with_them(node: str, keep: Keep | None = None) -> list[dict[str, Any]]:
        return [*await everything(node, keep), *map(dict, more)]

    world.kube.list_pods_on_node = with_them  # type: ignore[method-assign]


WEB = pod_json("web", "nginx", "log")
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize("metadata", [{}, DELETED], ids=["there", "deleted"])
@pytest.mark.parametrize(
    ("claims", "spec"),
    [
        ("nobody", None),
        ("nobody", with_each(WEB, resources={"requests": {"cpu": "1000"}})),
        ("web", None),
        ("web", with_each(WEB, image="other")),
        ("etcd-node-a", with_each(WEB, image="other")),
    ],
    ids=["of nobody", "too large", "of another", "of another with another image", "of a static pod"],
)
async def test_what_mirrors_no_static_pod_holds_up_no_run(
    start: Start, metadata: Json, claims: str, spec: Json | None
) -> None:
    world = start(WEB)
    beside(world, claiming(None if claims == "nobody" else uid_of(world, claims), spec, **metadata))

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message
    assert world.restarted == []


@pytest.mark.parametrize("shield", [ShieldPolicy.AUTO, ShieldPolicy.OFF])
async def test_no_other_pod_says_what_a_pod_is_hashed_as(start: Start, shield: ShieldPolicy) -> None:
    """On the way to a kubelet that hashes the whole container, name and image prove nothing of the rest."""
    world = start(WEB, old="v1.33.13", new="v1.30.14")
    world.kube.wish(allow_downgrade=True, verify=VerifySettings(settle=timedelta(seconds=2), shield=shield))
    beside(world, claiming(uid_of(world, "web"), with_each(WEB, workingDir="/elsewhere")))

    status = await world.serve()

    assert world.restarted == []
    assert status.phase is TaskPhase.SUCCEEDED, status.message


async def test_nor_a_field_that_only_the_new_kubelet_hashes(start: Start) -> None:
    web = pod_json("web", "nginx")
    web["spec"]["containers"][0]["securityContext"] = {"runAsNonRoot": True}
    world = start(web, old="v1.29.9", new="v1.30.14")
    world.node.disk["/sys/module/apparmor/parameters/enabled"] = b"Y\n"  # as on Ubuntu and Debian
    context = {"runAsNonRoot": True, "appArmorProfile": {"type": "RuntimeDefault"}}
    beside(world, claiming(uid_of(world, "web"), with_each(web, securityContext=context)))

    status = await world.serve()

    assert status.phase is TaskPhase.SUCCEEDED, status.message


async def test_no_other_pod_makes_a_pod_one_of_the_runs_own(start: Start) -> None:
    """The shield lets the kubelet end those, and the report does not count them."""
    world = start(WEB, old="v1.33.13", new="v1.30.14")
    world.kube.wish(allow_downgrade=True)
    beside(world, claiming(uid_of(world, "web"), with_each(WEB, workingDir="/elsewhere"), labels={RUN_LABEL: RUN}))

    await world.serve()

    assert world.restarted == []


@pytest.mark.parametrize(("namespace", "own"), [("default", False), ("nodeupgrade-system", True)])
async def test_a_label_makes_no_pod_of_another_namespace_one_of_the_runs_own(
    start: Start, namespace: str, own: bool
) -> None:
    labelled = pod_json("web", "nginx")
    labelled["metadata"] |= {"labels": {RUN_LABEL: RUN}, "namespace": namespace}
    world = start(labelled)

    await world.serve()

    plan = world.runs.read_plan(RunId(f"{RUN}.1"))
    assert plan is not None
    assert [c.expendable for c in plan.containers if c.pod.name == "web"] == [own]


async def test_no_other_pod_says_what_stops_a_container(start: Start) -> None:
    """The shield refuses such commands; a probe that executes one would be refused as well."""
    probe = {"exec": {"command": ["/healthy"]}}
    web = pod_json("web", "nginx")
    bare = with_each(web, lifecycle={"preStop": probe})
    web["spec"]["containers"][0]["readinessProbe"] = probe
    world = start(web, old="v1.33.13", new="v1.34.2")
    beside(world, claiming(uid_of(world, "web"), bare))

    await world.serve()

    plan = world.runs.read_plan(RunId(f"{RUN}.1"))
    assert plan is not None
    assert plan.shield is not None
    assert plan.shield.hooks == ()


@pytest.mark.parametrize("owned", [False, True], ids=["kubelets before 1.17", "since 1.17"])
async def test_a_mirror_pod_is_no_other_pod_than_its_static_pod(start: Start, owned: bool) -> None:
    """Control: what a kubelet creates changes nothing."""
    world = start(*PODS)
    etcd = next(sandbox.pod for sandbox in world.before.sandboxes if sandbox.is_static)
    mirror = pod_json(etcd.name, "etcd")
    mirror["metadata"] |= {
        "namespace": etcd.namespace,
        "uid": "0c7de1f5-0000-4000-8000-000000000000",
        "annotations": {CONFIG_MIRROR: etcd.uid, CONFIG_HASH: etcd.uid, "kubernetes.io/config.source": "file"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "n"}] if owned else [],
    }
    beside(world, mirror)

    status = await world.serve()

    assert upgraded(world), status.message
