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
    """Reads and writes the parameters of all nodes; a write fails if anyone else has changed them since they were read.

    What is asked for meanwhile goes out together in one write. If the API server rejects that, each change is written
    on its own, so that only the node at fault is refused.

    Args:
        gathering_seconds: How long a write waits for others that can go out with it.
    """

    def __init__(self, kube: KubeApi, namespace: str, gathering_seconds: float = 0.0) -> None:
        self._kube = kube
        self._resource = CONFIGMAPS.within(namespace)
        self._written: GuardParameters | None = None
        self._asked: list[_Asked] = []
        self._turn = asyncio.Lock()
        self._gathering_seconds = gathering_seconds

    async def read(self) -> GuardParameters | None:
        """Return the parameters as they are served, or None if the guard is not installed or may not be read.

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
            ConflictError: Someone else has changed the ConfigMap.
            NotFoundError: The ConfigMap does not exist any more.
            RejectedError: The API server rejects these changes.
            UnavailableError: The API server does not answer.
        """
        own = _Asked(seen, changes, asyncio.get_running_loop().create_future())
        self._asked.append(own)
        try:
            async with self._turn:
                if not own.answer.done():
                    await asyncio.sleep(self._gathering_seconds)
                    together, self._asked = self._asked, []
                    await self._write(together)
        finally:  # nobody writes it for one who has been cancelled, such as a former leader
            self._asked = [each for each in self._asked if each is not own]
        own.answer.result()

    async def _write(self, together: list["_Asked"]) -> None:
        """Write changes of several nodes at once, and answer all who asked for them."""
        try:
            await self._merge(together)
        except RejectedError as error:
            if len(together) == 1:
                self._fail(together, error)
            for each in together if len(together) > 1 else ():
                await self._write([each])
        except NodeUpgradeError as error:
            self._fail(together, error)
        except BaseException:
            self._fail(together, UnavailableError("the write of the readiness guard's parameters was broken off"))
            raise
        else:
            for each in together:
                each.answer.set_result(None)

    def _fail(self, together: list["_Asked"], error: NodeUpgradeError) -> None:
        self._written = None  # whatever is read next counts, even if it is older: from a backup
        for each in together:
            if not each.answer.done():
                each.answer.set_exception(error)
                each.answer.exception()  # whoever asked may be gone

    async def _merge(self, together: list["_Asked"]) -> None:
        seen = max((self.latest(each.seen) or each.seen for each in together), key=_version)
        data = {key: value for each in together for key, value in each.changes.items()}
        body = await self._kube.merge(
            self._resource, GUARD_NAME, {"data": data}, resource_version=seen.resource_version
        )
        self._written = _parameters(body)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Changes that somebody asks for, with the parameters that they rely on."""

    seen: GuardParameters
    changes: Mapping[str, str | None]
    answer: asyncio.Future[None]


def _version(parameters: GuardParameters) -> int:
    return int(parameters.resource_version)


def _parameters(body: Json) -> GuardParameters:
    return GuardParameters(data=body.get("data") or {}, resource_version=body["metadata"]["resourceVersion"])
