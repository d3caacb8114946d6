"""The ready endpoints of Services: from EndpointSlices, or from Endpoints where the API server has no slices yet."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nodeupgrade.api.encoding.json import Json

API_SERVER = "default/kubernetes"
"""The Service that stands for the API server in every cluster."""

SERVICE_LABEL = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """A Service and its ready endpoints.

    Attributes:
        service: ``namespace/name``.
        ready: pods as ``namespace/name``; an endpoint that is not a pod by its addresses.
    """

    service: str
    ready: frozenset[str]


def answering(objects: Iterable[Json]) -> tuple[Answering, ...]:
    """Return the ready endpoints of each Service, given Services, EndpointSlices and Endpoints.

    Services with ``publishNotReadyAddresses`` are left out: they keep a pod that becomes unready.
    """
    publishing_unready = set[str]()
    ready: dict[str, set[str]] = {}
    for body in objects:
        metadata = body["metadata"]
        namespace = str(metadata["namespace"])
        match body["kind"]:
            case "Service" if (body.get("spec") or {}).get("publishNotReadyAddresses"):
                publishing_unready.add(f"{namespace}/{metadata['name']}")
            case "EndpointSlice" if service := (metadata.get("labels") or {}).get(SERVICE_LABEL):
                ready.setdefault(f"{namespace}/{service}", set()).update(_of_slice(body, namespace))
            case "Endpoints":
                ready.setdefault(f"{namespace}/{metadata['name']}", set()).update(_of_endpoints(body, namespace))
            case _:
                pass
    return tuple(
        Answering(service=service, ready=frozenset(endpoints))
        for service, endpoints in sorted(ready.items())
        if service not in publishing_unready
    )


def addresses_of(service: str, objects: Iterable[Json]) -> tuple[str, ...]:
    """Return all addresses of a Service (``namespace/name``) and behind it, given the same objects."""
    return tuple(sorted(set(_addresses(service, objects))))


def _addresses(service: str, objects: Iterable[Json]) -> Iterator[str]:
    for body in objects:
        metadata = body["metadata"]
        sliced = (metadata.get("labels") or {}).get(SERVICE_LABEL) if body["kind"] == "EndpointSlice" else None
        if f"{metadata['namespace']}/{sliced or metadata['name']}" != service:
            continue
        match body["kind"]:
            case "Service":
                spec = body.get("spec") or {}
                yield from (ip for ip in (*(spec.get("clusterIPs") or ()), spec.get("clusterIP")) if ip)
            case "EndpointSlice":
                yield from (ip for each in body.get("endpoints") or () for ip in each.get("addresses") or ())
            case "Endpoints":
                for subset in body.get("subsets") or ():
                    yield from (str(each.get("ip")) for each in subset.get("addresses") or ())
            case _:
                pass


def _of_slice(body: Json, namespace: str) -> Iterator[str]:
    for endpoint in body.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:  # the API: unknown counts as ready
            yield _pod(endpoint, namespace) or ",".join(endpoint.get("addresses") or ())


def _of_endpoints(body: Json, namespace: str) -> Iterator[str]:
    for subset in body.get("subsets") or ():
        for address in subset.get("addresses") or ():
            yield _pod(address, namespace) or str(address.get("ip"))


def _pod(endpoint: Json, namespace: str) -> str | None:
    target = endpoint.get("targetRef") or {}
    return f"{target.get('namespace') or namespace}/{target['name']}" if target.get("kind") == "Pod" else None
