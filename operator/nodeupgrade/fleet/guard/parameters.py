"""Reads and writes the parameters of the readiness guard: one ConfigMap in the operator's namespace."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.kube_api import (
    CONFIGMAPS,
    ForbiddenError,
    KubeApi,
    NotFoundError,
    RejectedError,
    UnavailableError,
)
from nodeupgrade.errors import NodeUpgradeError
from nodeupgrade.fleet.actions import GuardParameters
from nodeupgrade.fleet.guard.requirement import GUARD_NAME

INSTALLED_IN = "nodeupgrade-system"
"""The namespace that the manifests use and the guard's bindings refer to."""


class GuardWriter:
    """Reads and writes the parameters of all nodes; a write fails if another client has changed them since the read.

    One write combines all pending changes. If the API server rejects it, each change is written on its own, so that
    only the node at fault is refused.

    Args:
        gathering_seconds: How long a write waits for others to combine with.
    """

    def __init__(self, kube: KubeApi, namespace: str, gathering_seconds: float = 0.0) -> None:
        self._kube = kube
        self._resource = CONFIGMAPS.within(namespace)
        self._written: GuardParameters | None = None
        self._pending: list[_PendingWrite] = []
        self._turn = asyncio.Lock()
        self._gathering_seconds = gathering_seconds

    async def read(self) -> GuardParameters | None:
        """Return the parameters, or None if the guard is not installed or may not be read.

        Raises:
            RejectedError, UnavailableError: They cannot be read at the moment.
        """
        try:
            body = await self._kube.get(self._resource, GUARD_NAME)
        except (NotFoundError, ForbiddenError):
            return None
        return _parameters(body)

    def latest(self, seen: GuardParameters | None) -> GuardParameters | None:
        """Return the parameters as they were read, or as they were written since."""
        if seen is None or self._written is None:
            return seen
        return max(seen, self._written, key=_version)

    async def write(self, seen: GuardParameters, changes: Mapping[str, str | None]) -> None:
        """Set entries, and remove those whose value is None.

        Raises:
            ConflictError: Another client has changed the ConfigMap.
            NotFoundError: The ConfigMap no longer exists.
            RejectedError: The API server rejects these changes.
            UnavailableError: The API server does not answer.
        """
        own = _PendingWrite(seen, changes, asyncio.get_running_loop().create_future())
        self._pending.append(own)
        try:
            async with self._turn:
                if not own.done.done():
                    await asyncio.sleep(self._gathering_seconds)
                    batch, self._pending = self._pending, []
                    await self._write(batch)
        finally:  # the write of a cancelled caller, such as a former leader, must not go out
            self._pending = [each for each in self._pending if each is not own]
        own.done.result()

    async def _write(self, batch: list["_PendingWrite"]) -> None:
        try:
            await self._merge(batch)
        except RejectedError as error:
            if len(batch) == 1:
                self._fail(batch, error)
            for each in batch if len(batch) > 1 else ():
                await self._write([each])
        except NodeUpgradeError as error:
            self._fail(batch, error)
        except BaseException:
            self._fail(batch, UnavailableError("the write of the readiness guard's parameters was cancelled"))
            raise
        else:
            for each in batch:
                each.done.set_result(None)

    def _fail(self, batch: list["_PendingWrite"], error: NodeUpgradeError) -> None:
        self._written = None  # the next read counts even if it is older: the API server may be restored from a backup
        for each in batch:
            if not each.done.done():
                each.done.set_exception(error)
                each.done.exception()  # marks it as retrieved: the caller may be gone

    async def _merge(self, batch: list["_PendingWrite"]) -> None:
        seen = max((self.latest(each.seen) or each.seen for each in batch), key=_version)
        data = {key: value for each in batch for key, value in each.changes.items()}
        body = await self._kube.merge(
            self._resource, GUARD_NAME, {"data": data}, resource_version=seen.resource_version
        )
        self._written = _parameters(body)


@dataclass(frozen=True, slots=True)
class _PendingWrite:
    """Changes of one caller, with the parameters that they rely on."""

    seen: GuardParameters
    changes: Mapping[str, str | None]
    done: asyncio.Future[None]


def _version(parameters: GuardParameters) -> int:
    return int(parameters.resource_version)


def _parameters(body: Json) -> GuardParameters:
    return GuardParameters(data=body.get("data") or {}, resource_version=body["metadata"]["resourceVersion"])
