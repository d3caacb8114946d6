"""NodeUpgrades as the operator knows them: news may come late, twice and out of order, or not at all."""

from collections.abc import AsyncIterator, Mapping

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.check_catalogue import read_upgrade
from nodeupgrade.cluster.kube_api import UPGRADES, Page, Resource
from nodeupgrade.fleet.caches.upgrade_cache import UpgradeCache
from tests.doubles.kube import InMemoryKube
from tests.scenario.rollout.harness import upgrade_object


class Counting(InMemoryKube):
    """Counts lists of NodeUpgrades."""

    lists = 0

    def pages(self, resource: Resource, *, labels: Mapping[str, str] | None = None) -> AsyncIterator[Page]:
        self.lists += resource == UPGRADES
        return super().pages(resource, labels=labels)


@pytest.fixture
def kube() -> Counting:
    return Counting()


async def created(kube: InMemoryKube, name: str) -> Json:
    return await kube.create(UPGRADES, upgrade_object(name))


def version(body: Json) -> int:
    return int(body["metadata"]["resourceVersion"])


async def test_lists_only_what_it_cannot_know(kube: Counting) -> None:
    cache = UpgradeCache(kube, read_upgrade)
    first = await created(kube, "first")
    await cache.at_least(version(first))
    await cache.at_least(version(first))
    assert (kube.lists, set(cache.views)) == (1, {"first"})

    second = await created(kube, "second")
    cache.learn(second)
    assert set(cache.views) == {"first", "second"}
    await cache.at_least(version(second))
    assert kube.lists == 2, "an event says nothing of the other objects"


async def test_older_news_changes_nothing(kube: Counting) -> None:
    cache = UpgradeCache(kube, read_upgrade)
    before = await created(kube, "one")
    after = await kube.merge(UPGRADES, "one", {"spec": {"action": "Abort"}})
    cache.learn(after)
    cache.learn(before)
    known = cache.views["one"].upgrade
    assert known is not None
    assert known.resource_version == after["metadata"]["resourceVersion"]


async def test_what_is_gone_stays_gone_and_its_successor_stays(kube: Counting) -> None:
    cache = UpgradeCache(kube, read_upgrade)
    old = await created(kube, "one")
    cache.learn(old)
    cache.forget("one", old["metadata"]["uid"])
    cache.learn(old)
    assert not cache.views

    await kube.delete(UPGRADES, "one")
    new = await created(kube, "one")
    cache.learn(new)
    cache.forget("one", old["metadata"]["uid"])
    assert cache.views["one"].uid == new["metadata"]["uid"]


async def test_a_deletion_that_nobody_told_of_is_found_by_a_list(kube: Counting) -> None:
    cache = UpgradeCache(kube, read_upgrade)
    cache.learn(await created(kube, "one"))
    await kube.delete(UPGRADES, "one")
    await created(kube, "other")
    assert set(await cache.listed()) == {"other"}


@pytest.mark.parametrize("spoilt", [{"creationTimestamp": "yesterday"}, {"creationTimestamp": 7}, {"annotations": []}])
async def test_one_that_cannot_be_read_counts_as_active(kube: Counting, spoilt: Json) -> None:
    cache = UpgradeCache(kube, read_upgrade)
    body = await created(kube, "one")
    cache.learn({**body, "metadata": {**body["metadata"], **spoilt}})
    assert cache.views["one"].active
    assert cache.views["one"].uid == body["metadata"]["uid"]


async def test_one_without_a_date_cannot_be_read(kube: Counting) -> None:
    cache = UpgradeCache(kube, read_upgrade)
    body = await created(kube, "one")
    cache.learn({**body, "metadata": {**body["metadata"], "creationTimestamp": "yesterday"}})
    assert cache.views["one"].upgrade is None
