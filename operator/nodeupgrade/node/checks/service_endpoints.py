"""The ready endpoints and the addresses of Services, from Services, EndpointSlices and Endpoints."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodeupgrade.api.json import Json

API_SERVER = "default/kubernetes"
"""The Service that stands for the API server in every cluster."""

SERVICE_LABEL = "kubernetes.io/service-name"


def answering(objects: Iterable[Json]) -> dict[str, frozenset[str]]:
    """Return the ready endpoints of each Service (``namespace/name``), given Services, EndpointSlices and Endpoints.

    Pods are named as ``namespace/name``, an endpoint that names no pod by its addresses. Services with
    ``publishNotReadyAddresses`` are left out: they keep a pod that becomes unready.
    """
    publishing_unready = set[str]()
    ready: dict[str, set[str]] = {}
    for body in objects:
        metadata = body["metadata"]
        namespace = str(metadata["namespace"])
        match body["kind"]:
            case "Service" if (body.get("spec") or {}).get("publishNotReadyAddresses"):
                publishing_unready.add(f"{namespace}/{metadata['name']}")
            case "EndpointSlice" | "Endpoints" if service := _service_of(body):
                found = (_pod(each, namespace) or ",".join(each.addresses) for each in _endpoints(body) if each.ready)
                ready.setdefault(f"{namespace}/{service}", set()).update(found)
            case _:
                pass
    return {name: frozenset(each) for name, each in sorted(ready.items()) if name not in publishing_unready}


def addresses_of(service: str, objects: Iterable[Json]) -> tuple[str, ...]:
    """Return all addresses of a Service (``namespace/name``) and behind it, given the same objects."""
    found = set[str]()
    for body in objects:
        if f"{body['metadata']['namespace']}/{_service_of(body)}" == service:
            spec = (body.get("spec") or {}) if body["kind"] == "Service" else {}
            found.update(ip for ip in (*(spec.get("clusterIPs") or ()), spec.get("clusterIP")) if ip)
            found.update(address for each in _endpoints(body) for address in each.addresses)
    return tuple(sorted(found))


def _service_of(body: Json) -> str | None:
    """Return the name of a Service, or of the one whose endpoints an object has."""
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    return labels.get(SERVICE_LABEL) if body["kind"] == "EndpointSlice" else str(metadata["name"])


@dataclass(frozen=True, slots=True)
class _Endpoint:
    addresses: tuple[str, ...]
    target: Json  # what it is, such as a pod
    ready: bool = True


def _endpoints(body: Json) -> Iterator[_Endpoint]:
    """Yield the endpoints of an EndpointSlice or of Endpoints, of the latter those that are ready."""
    for each in body.get("endpoints") or ():
        ready = (each.get("conditions") or {}).get("ready") is not False  # the API: unknown counts as ready
        yield _Endpoint(tuple(each.get("addresses") or ()), each.get("targetRef") or {}, ready)
    for address in (address for subset in body.get("subsets") or () for address in subset.get("addresses") or ()):
        yield _Endpoint((str(address.get("ip")),), address.get("targetRef") or {})


def _pod(endpoint: _Endpoint, namespace: str) -> str | None:
    """Return the pod that an endpoint is, if it names one: the API server does not require it to."""
    target = endpoint.target
    if target.get("kind") != "Pod" or not (name := target.get("name")):
        return None
    return f"{target.get('namespace') or namespace}/{name}"
