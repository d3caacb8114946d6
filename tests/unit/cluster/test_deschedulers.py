from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.descheduler_policy import Descheduler
from nodeupgrade.cluster.deschedulers import RECENT_SECONDS, KnownDeschedulers, read_deschedulers
from nodeupgrade.cluster.kube_api import CONFIGMAPS, PODS, ForbiddenError, Resource, TooLargeError
from tests.doubles.kube import InMemoryKube

EVICTS = "{kind: DeschedulerPolicy, strategies: {RemovePodsViolatingNodeTaints: {enabled: true}}}"
SPARES = "{kind: DeschedulerPolicy}"


def pod(namespace: str, policy: str | None, *arguments: str, **spec: str) -> Json:
    """Return a pod as its chart makes it, unless ``spec`` says otherwise."""
    volumes = [] if policy is None else [{"name": "policy", "configMap": {"name": policy}}]
    containers = [{"name": "descheduler", "args": [*arguments]}]
    priority = {"priorityClassName": "system-cluster-critical"}
    return {
        "metadata": {"name": "one", "namespace": namespace, "labels": {"app.kubernetes.io/name": "descheduler"}},
        "spec": {"containers": containers, "volumes": volumes, **(spec or priority)},
        "status": {"phase": "Succeeded"},
    }


async def cluster(pods: list[Json], policies: dict[tuple[str, str], str], kube: InMemoryKube | None = None) -> Any:
    kube = kube or InMemoryKube()
    for body in pods:
        await kube.create(PODS.within(body["metadata"]["namespace"]), body)
    for (namespace, name), text in policies.items():
        await kube.create(CONFIGMAPS.within(namespace), {"metadata": {"name": name}, "data": {"policy.yaml": text}})
    return kube


OURS, USUAL = ("tools", "mine"), ("kube-system", "descheduler")


@pytest.mark.parametrize(
    ("pods", "policies", "found"),
    [
        ([], {}, []),
        ([], {USUAL: EVICTS}, [("kube-system/descheduler", True)]),
        ([], {USUAL: SPARES}, []),
        ([], {USUAL: "something else of this name"}, []),
        ([pod("tools", "mine")], {OURS: EVICTS}, [("tools/mine", True)]),
        ([pod("tools", "mine")], {OURS: SPARES}, []),
        ([pod("tools", "mine", "--dry-run")], {OURS: EVICTS}, []),
        ([pod("kube-system", "descheduler", "--dry-run=true")], {USUAL: EVICTS}, []),
        ([pod("tools", "mine", "--dry-run=false")], {OURS: EVICTS}, [("tools/mine", True)]),
        ([pod("tools", "mine")], {}, [("tools/mine", False)]),
        ([pod("tools", "mine")], {OURS: "{"}, [("tools/mine", False)]),
        ([pod("tools", None)], {}, [("tools/one", False)]),
    ],
)
async def test_deschedulers_are_found_by_their_pods_and_policies(
    pods: list[Json], policies: dict[tuple[str, str], str], found: list[tuple[str, bool]]
) -> None:
    kube = await cluster(pods, policies)

    assert [*await read_deschedulers(kube)] == [Descheduler(name=name, known=known) for name, known in found]


RAN = {"nodeName": "node-0"}


@pytest.mark.parametrize(
    ("pods", "policies", "found"),
    [
        ([pod("tenant", None, schedulerName="none")], {}, []),
        ([pod("tenant", None, **RAN)], {}, [("tenant/one", False, False)]),
        ([pod("tenant", "mine", **RAN)], {("tenant", "mine"): EVICTS}, [("tenant/mine", True, False)]),
        ([pod("tenant", "mine", **RAN)], {("tenant", "mine"): SPARES}, []),
        ([pod("kube-system", "mine", **RAN)], {}, [("kube-system/mine", False, True)]),
        ([pod("kube-system", "mine", schedulerName="none")], {}, [("kube-system/mine", False, True)]),
        (
            [pod("a", None, **RAN), pod("tools", None), pod("z", "mine", **RAN)],
            {},
            [("tools/one", False, True), ("z/mine", False, False), ("a/one", False, False)],
        ),
    ],
)
async def test_a_pod_that_anybody_may_create_is_not_believed_and_counts_last(
    pods: list[Json], policies: dict[tuple[str, str], str], found: list[tuple[str, bool, bool]]
) -> None:
    kube = await cluster(pods, policies)

    assert [(each.name, each.known, each.believed) for each in await read_deschedulers(kube)] == found


async def test_a_crowd_of_pods_leaves_room_for_what_is_believed() -> None:
    kube = await cluster([pod(f"tenant-{number}", "mine", **RAN) for number in range(50)], {USUAL: EVICTS})
    found = await read_deschedulers(kube)

    assert found[0] == Descheduler(name="kube-system/descheduler", known=True)
    assert len(found) == 10


class Crowded(InMemoryKube):
    async def list(self, resource: Resource, **asked: Any) -> list[Json]:
        if resource.namespace is None:
            raise TooLargeError("more than that")
        return await super().list(resource, **asked)


async def test_where_pods_are_too_large_to_read_those_of_the_system_are_read() -> None:
    kube = await cluster([pod("kube-system", "mine"), pod("tools", "mine")], {}, Crowded())
    found = await read_deschedulers(kube)

    assert [(each.name, each.believed) for each in found][:1] == [("kube-system/mine", True)]
    assert [each.believed for each in found][1:] == [False]


class Flooded(InMemoryKube):
    async def list(self, resource: Resource, **asked: Any) -> list[Json]:
        raise TooLargeError("more than that") if resource.namespace is None else ForbiddenError("not here")


async def test_where_none_can_be_read_that_is_said() -> None:
    found = await read_deschedulers(Flooded())

    assert [(each.known, each.believed) for each in found] == [(False, False)]


class Closed(InMemoryKube):
    async def get(self, resource: Resource, name: str) -> Json:
        if resource.plural == CONFIGMAPS.plural:
            raise ForbiddenError("not here")
        return await super().get(resource, name)


async def test_a_policy_that_may_not_be_read_is_not_known() -> None:
    kube = await cluster([pod("tools", "mine")], {OURS: SPARES}, Closed())

    assert await read_deschedulers(kube) == (Descheduler(name="tools/mine", known=False, denied=True),)


async def test_what_was_found_lately_is_not_looked_for_again() -> None:
    known, kube = KnownDeschedulers(), await cluster([], {})
    assert await known.read(kube, 0.0) == ()
    await cluster([], {USUAL: EVICTS}, kube)

    assert await known.read(kube, RECENT_SECONDS - 1) == ()
    assert len(await known.read(kube, RECENT_SECONDS)) == 1
