from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.descheduler_policy import Descheduler
from nodeupgrade.cluster.deschedulers import RECENT_SECONDS, KnownDeschedulers, read_deschedulers
from nodeupgrade.cluster.kube_api import CONFIGMAPS, PODS, ForbiddenError, Resource
from tests.doubles.kube import InMemoryKube

EVICTS = "{kind: DeschedulerPolicy, strategies: {RemovePodsViolatingNodeTaints: {enabled: true}}}"
SPARES = "{kind: DeschedulerPolicy}"


def pod(namespace: str, policy: str | None, *arguments: str) -> Json:
    volumes = [] if policy is None else [{"name": "policy", "configMap": {"name": policy}}]
    return {
        "metadata": {"name": "one", "namespace": namespace, "labels": {"app.kubernetes.io/name": "descheduler"}},
        "spec": {"containers": [{"name": "descheduler", "args": [*arguments]}], "volumes": volumes},
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
