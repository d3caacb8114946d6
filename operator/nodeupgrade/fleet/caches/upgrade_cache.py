"""A cache of all NodeUpgrades, fed by events, by lists and by the responses to our own writes.

Unlike an informer it does not watch: in the operator, kopf watches and passes events on. kopf reports neither deletions
that it missed nor how far its watch has come, so a caller that needs a complete view asks for a resourceVersion
(``at_least``) or a list (``listed``).
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeAlias

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import UPGRADES, KubeApi
from nodeupgrade.fleet.caches.object_cache import ObjectCache, Reduced


@dataclass(frozen=True, slots=True)
class KnownUpgrade:
    """One NodeUpgrade; ``upgrade`` is None if this version cannot parse it."""

    uid: str
    upgrade: Upgrade | None

    @property
    def active(self) -> bool:
        """Whether it may still touch nodes; assumed if it cannot be parsed."""
        return self.upgrade is None or self.upgrade.active


ReadUpgrade: TypeAlias = Callable[[Json], Upgrade]
"""Parses a NodeUpgrade; a parser that knows all checks also finds wrong names of checks in it."""


def known_upgrade(read_upgrade: ReadUpgrade, body: Json) -> KnownUpgrade:
    """Return the cache entry of a NodeUpgrade, even if it cannot be parsed."""
    uid = body["metadata"]["uid"]
    try:
        return KnownUpgrade(uid, read_upgrade(body))
    except (MalformedObjectError, LookupError, TypeError, ValueError, AttributeError):
        return KnownUpgrade(uid, None)  # never omitted: a NodeUpgrade that is not cached would not count as active


def nodes_in_flight(listed: Iterable[KnownUpgrade]) -> frozenset[NodeName] | None:
    """Return the nodes in flight of all rollouts; None if that is not known of one, which cannot be parsed."""
    known = [each.upgrade for each in listed]
    slots = (upgrade.status.flying for upgrade in known if upgrade is not None)
    return None if None in known else frozenset(chain.from_iterable(slots))


class UpgradeCache(ObjectCache[KnownUpgrade]):
    """NodeUpgrades by name, parsed once per change and not once per pass."""

    def __init__(self, kube: KubeApi, read_upgrade: ReadUpgrade) -> None:
        super().__init__(partial(known_upgrade, read_upgrade))
        self._kube = kube
        self._listing = asyncio.Lock()
        self.doubts = 0  # how often one may have been written without our knowledge since the last list began

    async def at_least(self, version: int) -> None:
        """List, unless the cache is complete up to a resourceVersion, and nothing is in doubt.

        Raises:
            UnavailableError: They cannot be listed at the moment.
        """
        async with self._listing:
            if self.doubts or self.version < version:
                await self._list()

    async def listed(self) -> Mapping[str, KnownUpgrade]:
        """List and return all NodeUpgrades.

        Raises:
            UnavailableError: They cannot be listed at the moment.
        """
        async with self._listing:
            await self._list()
            return dict(self.views)

    async def _list(self) -> None:
        """List and store all. The caller holds the lock: an older list that arrives later would pass for a backup."""
        self.begin()
        listed, version, doubts = dict[str, Reduced[KnownUpgrade]](), 0, self.doubts
        async for page in self._kube.pages(UPGRADES):
            version = int(page.resource_version)
            listed |= {reduced.name: reduced for reduced in map(self.reduce, page.items)}
        self.replace(listed, version)
        self.doubts -= doubts
