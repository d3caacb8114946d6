"""How requests are written, and how the events of a watch are read."""

import json
from collections.abc import Mapping

from nodeupgrade.adapters.kube.transport import failure
from nodeupgrade.ports.kube import PODS, Resource, UnavailableError, WatchEvent, WatchEventType

NODE_OF_POD = "spec.nodeName"
"""The field by which API servers keep an index of pods, in their cache."""


def event(resource: Resource, line: bytes) -> WatchEvent:
    """Read a line of a watch.

    Raises:
        ExpiredError, UnavailableError, RejectedError: It is the API server's complaint, or no event at all.
    """
    what = f"watch {resource.plural}"
    try:
        told = json.loads(line)
        if told["type"] == "ERROR":
            status = told["object"]
            raise failure(what, int(status.get("code", 500)), str(status.get("message", "")))
        return WatchEvent(WatchEventType(told["type"]), told["object"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnavailableError(f"cannot {what} because the API server sends what is no event ({error!r})") from error


def path(resource: Resource, name: str | None = None) -> str:
    """Say where a kind, or one object of it, is served."""
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = f"/namespaces/{resource.namespace}" if resource.namespace else ""
    return f"{root}{scope}/{resource.plural}" + (f"/{name}" if name else "")


def has_index(resource: Resource, fields: Mapping[str, str] | None) -> bool:
    """Whether API servers can answer without reading every object."""
    return resource == PODS and fields is not None and set(fields) == {NODE_OF_POD}


def selector(terms: Mapping[str, str]) -> str:
    """Write a selector of labels or fields."""
    return ",".join(f"{key}={value}" for key, value in terms.items())
