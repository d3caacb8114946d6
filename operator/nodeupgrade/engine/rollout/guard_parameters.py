"""Reads and writes the parameters of the readiness guard: one ConfigMap in the operator's namespace."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from nodeupgrade.domain.errors import NodeUpgradeError
from nodeupgrade.domain.rollout.actions import LiftGuard, NarrowGuard, RaiseGuard
from nodeupgrade.domain.rollout.guard import GUARD_NAME, GuardParameters
from nodeupgrade.ports.kube import CONFIGMAPS, ForbiddenError, KubeApi, NotFoundError, RejectedError

INSTALLED_IN = "nodeupgrade-system"
"""The namespace that the manifests use and the guard's bindings refer to."""


async def read_parameters(kube: KubeApi, namespace: str) -> GuardParameters | None:
    """Return the parameters, or None if the guard is not installed or may not be read."""
    try:
        body = await kube.get(CONFIGMAPS.within(namespace), GUARD_NAME)
    except (NotFoundError, ForbiddenError):
        return None
    return GuardParameters(data=body.get("data") or {}, resource_version=body["metadata"]["resourceVersion"])


GuardAction: TypeAlias = RaiseGuard | NarrowGuard | LiftGuard
"""Actions that change the parameters."""


class GuardWriter:
    """Writes the parameters for one plan; fails if anyone else has changed them since the plan's input was read.

    The changes of all nodes go out in one write, together with the first of them. If the API server rejects it, each is
    written on its own, so that only the node at fault is refused.
    """

    def __init__(self, kube: KubeApi, namespace: str) -> None:
        self._kube = kube
        self._resource = CONFIGMAPS.within(namespace)
        self._version: str | None = None
        self._together: dict[str, str | None] = {}
        self._written: dict[str, str | None] = {}
        self._failure: NodeUpgradeError | None = None
        self._turn = asyncio.Lock()

    def expect(self, actions: Iterable[GuardAction]) -> None:
        """Announce the changes of a plan."""
        for action in actions:
            self._together |= action.changes

    async def write(self, seen: GuardParameters, changes: Mapping[str, str | None]) -> None:
        """Set entries, and remove those whose value is None.

        Raises:
            ConflictError: Someone else has changed the ConfigMap.
            NotFoundError: The ConfigMap does not exist any more.
            RejectedError: The API server rejects these changes.
            UnavailableError: The API server does not answer.
        """
        async with self._turn:
            if self._failure is not None:
                raise self._failure
            together, self._together = self._together, {}
            if len(together) > len(changes):
                with contextlib.suppress(RejectedError):
                    await self._merge(seen, together)
            if not changes.items() <= self._written.items():
                await self._merge(seen, changes)

    async def _merge(self, seen: GuardParameters, changes: Mapping[str, str | None]) -> None:
        version, patch = self._version or seen.resource_version, {"data": dict(changes)}
        try:
            written = await self._kube.merge(self._resource, GUARD_NAME, patch, resource_version=version)
        except RejectedError:
            raise
        except NodeUpgradeError as error:
            self._failure = error  # the others would fail like this one, each after its own time-out
            raise
        self._version = written["metadata"]["resourceVersion"]
        self._written |= changes
