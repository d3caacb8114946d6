"""The API server's formats: paths, selectors, and the events of a watch."""

from collections.abc import Mapping

from nodeupgrade.cluster.client.refusals import failure
from nodeupgrade.cluster.kube_api import PODS, Resource, UnavailableError, WatchEvent, WatchEventType
from nodeupgrade.text import integer, parse_json

NODE_OF_POD = "spec.nodeName"
"""The field by which API servers index pods in their cache."""


def event(resource: Resource, line: bytes) -> WatchEvent:
    """Parse a line of a watch.

    Raises:
        ExpiredError, UnavailableError, RejectedError: The line is an ERROR event, or not an event.
    """
    request = f"watch {resource.plural}"
    try:
        message = parse_json(line)
        if message["type"] == "ERROR":
            status = message["object"]
            raise failure(request, integer(status.get("code", 500)), str(status.get("message", "")))
        return WatchEvent(WatchEventType(message["type"]), message["object"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnavailableError(f"cannot {request} because the API server sent no valid event ({error!r})") from error


def path(resource: Resource, name: str | None = None) -> str:
    """Return the URL path of a kind, or of one object of it."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = f"/namespaces/{resource.namespace}" if resource.namespace else ""
    return f"{root}{scope}/{resource.plural}" + (f"/{name}" if name else "")


def has_index(resource: Resource, fields: Mapping[str, str] | None) -> bool:
    """Report whether API servers have an index for these fields, so that they need not read every object."""
    return resource == PODS and fields is not None and set(fields) == {NODE_OF_POD}


def selectors(labels: Mapping[str, str] | None, fields: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the parameters of a request that select by labels and fields."""
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {name: ",".join(f"{k}={v}" for k, v in terms.items()) for name, terms in given.items() if terms}
