"""Reading and writing the readiness guard's parameters: one ConfigMap in the operator's namespace."""

from collections.abc import Mapping

from nodeupgrade.domain.rollout.guard import GUARD_NAME, GuardParameters
from nodeupgrade.ports.kube import CONFIGMAPS, ForbiddenError, KubeApi, NotFoundError

INSTALLED_IN = "nodeupgrade-system"
"""The namespace of the manifests, which the guard's bindings name."""


async def read_parameters(kube: KubeApi, namespace: str) -> GuardParameters | None:
    """Read them; None where the guard is not installed, or may not be read."""
    try:
        body = await kube.get(CONFIGMAPS.within(namespace), GUARD_NAME)
    except (NotFoundError, ForbiddenError):
        return None
    return GuardParameters(data=body.get("data") or {}, resource_version=body["metadata"]["resourceVersion"])


class GuardWriter:
    """Writes them for one plan: each change relies on what the plan was made from, and on our own changes since."""

    def __init__(self, kube: KubeApi, namespace: str) -> None:
        self._kube = kube
        self._resource = CONFIGMAPS.within(namespace)
        self._version: str | None = None

    async def write(self, seen: GuardParameters, changes: Mapping[str, str | None]) -> None:
        """Set and, for None, remove entries.

        Raises:
            ConflictError: Somebody else has changed them.
            NotFoundError: They are gone.
        """
        version = self._version or seen.resource_version
        patch = {"data": dict(changes)}
        written = await self._kube.merge(self._resource, GUARD_NAME, patch, resource_version=version)
        self._version = written["metadata"]["resourceVersion"]
