"""Objects of the cluster that health checks are about."""

import json

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.health import ClusterObjects
from nodeupgrade.cluster.kube_api import ForbiddenError, KubeApi, NotFoundError, Resource
from nodeupgrade.fleet.health.evaluation import ProbeError
from nodeupgrade.fleet.health.expressions import MOST_DATA_BYTES

MOST_OBJECTS = 500
PAGE_SIZE = 50
"""Objects that are read in one answer: each may be large, and with a selector most may be of no concern."""

READER_ROLE_LABEL = "nodeupgrade.dev/aggregate-to-health-checks"
"""Label of the ClusterRoles that say what health checks may read."""


async def read(kube: KubeApi, wanted: ClusterObjects) -> tuple[Json, ...]:
    """Return the objects as they are now, at least one. The caller limits the time.

    Raises:
        ProbeError: There are none or too many, they may not be read, or the API server does not answer.
    """
    group, _, version = wanted.api_version.rpartition("/")
    resource = Resource(group, version, wanted.resource, "", wanted.namespace)
    try:
        found = await _found(kube, resource, wanted)
    except ForbiddenError:
        raise ProbeError(
            f"health checks may not read {_named(wanted)}; give them the right with a ClusterRole that has the label "
            f'{READER_ROLE_LABEL}: "true"'
        ) from None
    except NotFoundError:
        raise ProbeError(f"there is no {_named(wanted)}") from None
    if not found:
        raise ProbeError(f"there are no {_named(wanted)} that are selected")
    return tuple(found)


async def _found(kube: KubeApi, resource: Resource, wanted: ClusterObjects) -> list[Json]:
    if wanted.name is not None:
        return [await kube.get(resource, wanted.name)]
    selector, found, size = wanted.selector, list[Json](), 0
    labels = None if selector is None else selector.match_labels
    async for page in kube.pages(resource, labels=labels or None):
        for each in page.items:
            if selector is not None and not selector.matches(each["metadata"].get("labels") or {}):
                continue
            found.append(each)
            size += len(json.dumps(each))
        if len(found) > MOST_OBJECTS:
            raise ProbeError(f"more than {MOST_OBJECTS} {_named(wanted)} are selected; select fewer")
        if size > MOST_DATA_BYTES:
            raise ProbeError(
                f"the {_named(wanted)} that are selected are more than {MOST_DATA_BYTES} bytes; select fewer"
            )
    return found


def label(body: Json) -> str:
    """Return namespace and name of an object."""
    metadata = body["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def _named(wanted: ClusterObjects) -> str:
    where = f" in namespace {wanted.namespace}" if wanted.namespace else ""
    name = f" {wanted.name}" if wanted.name else ""
    return f"{wanted.resource} ({wanted.api_version}){name}{where}"
