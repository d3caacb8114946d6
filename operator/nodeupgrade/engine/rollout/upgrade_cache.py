"""What is known of all NodeUpgrades: from whoever watches them, from lists, and from what our own writes returned.

Unlike an informer it does not watch: in the operator kopf does, and tells. kopf tells nothing of deletions that it
missed itself, nor how far it has come; so whoever needs to know that nothing is missing asks for a version, or a list.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.upgrade.reading import parse_upgrade
from nodeupgrade.engine.informer.object_cache import ObjectCache, Reduced
from nodeupgrade.ports.kube import UPGRADES, KubeApi


@dataclass(frozen=True, slots=True)
class KnownUpgrade:
    """One NodeUpgrade; ``upgrade`` is None where this version cannot read it."""

    uid: str
    upgrade: Upgrade | None

    @property
    def active(self) -> bool:
        """Whether it may still touch nodes; one that cannot be read may, to be on the safe side."""
        return self.upgrade is None or self.upgrade.active


def known_upgrade(body: Json) -> KnownUpgrade:
    """Read a NodeUpgrade, whatever it looks like."""
    uid = body["metadata"]["uid"]
    try:
        return KnownUpgrade(uid, parse_upgrade(body))
    except (MalformedObjectError, LookupError, TypeError, ValueError, AttributeError):
        return KnownUpgrade(uid, None)  # never left out: whoever is not known does not count


class UpgradeCache:
    """NodeUpgrades by name, each parsed once for every change and not for every pass."""

    def __init__(self, kube: KubeApi) -> None:
        self._kube = kube
        self._cache: ObjectCache[KnownUpgrade] = ObjectCache(known_upgrade)
        self._listing = asyncio.Lock()

    @property
    def views(self) -> dict[str, KnownUpgrade]:
        """What is known now, by name; a copy."""
        return dict(self._cache.views)

    def learn(self, body: Json) -> None:
        """Take over one state of an object, from an event or as the answer to a write; older news changes nothing."""
        self._cache.learn(body)

    def forget(self, name: str, uid: str) -> None:
        """Take note that an object is gone."""
        self._cache.forget(name, uid)

    async def at_least(self, version: int) -> None:
        """List unless everything up to a resourceVersion is known.

        Raises:
            UnavailableError: They cannot be had just now.
        """
        async with self._listing:
            if self._cache.version < version:
                await self._list()

    async def listed(self) -> Mapping[str, KnownUpgrade]:
        """Return all that there are now.

        Raises:
            UnavailableError: They cannot be had just now.
        """
        async with self._listing:
            await self._list()
            return self.views

    async def _list(self) -> None:
        """One list at a time: an older one that came later would be taken for an API server restored from a backup."""
        listed, version = dict[str, Reduced[KnownUpgrade]](), 0
        async for page in self._kube.pages(UPGRADES):
            version = int(page.resource_version)
            listed |= {reduced.name: reduced for reduced in map(self._cache.reduce, page.items)}
        self._cache.replace(listed, version)
