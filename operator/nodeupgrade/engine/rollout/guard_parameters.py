"""Reads and writes the parameters of the readiness guard: one ConfigMap in the operator's namespace."""

from collections.abc import Mapping

from nodeupgrade.domain.rollout.guard import GUARD_NAME, GuardParameters
from nodeupgrade.ports.kube import CONFIGMAPS, ForbiddenError, KubeApi, NotFoundError

INSTALLED_IN = "nodeupgrade-system"
"""The namespace that the manifests use and the guard's bindings refer to."""


async def read_parameters(kube: KubeApi, namespace: str) -> GuardParameters | None:
    """Return the parameters, or None if the guard is not installed or may not be read."""
    try:
        body = await kube.get(CONFIGMAPS.within(namespace), GUARD_NAME)
    except (NotFoundError, ForbiddenError):
        return None
    return GuardParameters(data=body.get("data") or {}, resource_version=body["metadata"]["resourceVersion"])


class GuardWriter:
    """Writes the parameters for one plan; fails if anyone else has changed them since the plan's input was read."""

    def __init__(self, kube: KubeApi, namespace: str) -> None:
        self._kube = kube
        self._resource = CONFIGMAPS.within(namespace)
        self._version: str | None = None

    async def write(self, seen: GuardParameters, changes: Mapping[str, str | None]) -> None:
        """Set entries, and remove those whose value is None.

        Raises:
            ConflictError: Someone else has changed the ConfigMap.
            NotFoundError: The ConfigMap does not exist any more.
        """
        version = self._version or seen.resource_version
        patch = {"data": dict(changes)}
        written = await self._kube.merge(self._resource, GUARD_NAME, patch, resource_version=version)
        self._version = written["metadata"]["resourceVersion"]
