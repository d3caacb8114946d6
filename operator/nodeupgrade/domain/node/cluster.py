"""What a node's checks take from the API server: endpoints, dependants, its clock, and whether the guard works."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from urllib.parse import quote

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.upgrade.nodes import LabelSelector
from nodeupgrade.domain.node.departures import longest_exposure
from nodeupgrade.domain.placement import matches_labels
from nodeupgrade.domain.pods import parse_pod
from nodeupgrade.kubelet.probe_delay import MARGIN

API_SERVER = "default/kubernetes"
"""The Service that stands for the API server in every cluster."""

SERVICE_LABEL = "kubernetes.io/service-name"


def answering(objects: Iterable[Json]) -> dict[str, frozenset[str]]:
    """Return the ready endpoints of each Service (``namespace/name``), given Services, EndpointSlices and Endpoints.

    Pods are named as ``namespace/name``, an endpoint that is not a pod by its addresses. Services with
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
    target = endpoint.target
    return f"{target.get('namespace') or namespace}/{target['name']}" if target.get("kind") == "Pod" else None


# What depends on the readiness of pods besides clients: disruption budgets, and what the API server itself calls.


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    spare: int  # how many more of its pods may be unready
    selector: LabelSelector | None  # selects its pods; None if it selects none

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Report whether it is about a pod with these labels."""
        return self.selector is not None and namespace == self.namespace and matches_labels(self.selector, labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependants:
    """What depends on the readiness of pods."""

    budgets: tuple[Budget, ...] = ()
    callers: tuple[tuple[str, str], ...] = ()  # by Service, as ``namespace/name``, what the API server calls it for


def dependants(objects: Iterable[Json]) -> Dependants:
    """Parse PodDisruptionBudgets, configurations of webhooks and APIServices; other objects are left out."""
    budgets, callers = list[Budget](), set[tuple[str, str]]()
    for body in objects:
        spec = body.get("spec") or {}
        match kind := body.get("kind"):
            case "PodDisruptionBudget":
                budgets.append(_budget(body, spec.get("selector")))
                continue
            case "APIService":
                services = [spec.get("service")]
            case "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration":
                services = [(hook.get("clientConfig") or {}).get("service") for hook in body.get("webhooks") or ()]
            case _:
                continue
        caller = f"{kind} {body['metadata']['name']}"
        callers.update((f"{each.get('namespace')}/{each.get('name')}", caller) for each in services if each)
    return Dependants(budgets=tuple(budgets), callers=tuple(sorted(callers)))


def _budget(body: Json, selector: Json | None) -> Budget:
    # An empty selector selects nothing in policy/v1beta1, and everything in policy/v1.
    selects = selector is not None and (bool(selector) or body.get("apiVersion") == "policy/v1")
    return Budget(
        namespace=str(body["metadata"]["namespace"]),
        name=str(body["metadata"]["name"]),
        spare=int((body.get("status") or {}).get("disruptionsAllowed") or 0),
        selector=from_json(LabelSelector, selector) if selects else None,
    )


# Trial requests that show whether the readiness guard is in force, and what the answers mean.
#
# The guard denies status updates of the node's kubelet. Only a trial update with the kubelet's own credentials proves
# that all of it works: the policies, their bindings, the parameters, and an API server that has observed them.

POD_POLICY = "readiness-guard.nodeupgrade.dev"
NODE_POLICY = "node-guard.nodeupgrade.dev"
TRIED_PODS = 3
"""At most this many pods are tried at a time, in case some are gone or have just become unready."""

_UNREADY = {"type": "Ready", "status": "False"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A patch that the guard has to deny."""

    subject: str  # the object that is patched, for messages
    path: str  # request path of the object's status
    patch: Json
    policy: str  # name of the policy that must deny it

    def judge(self, status: int, text: str) -> "InForce | NotInForce":
        """Return whether the answer is the guard's denial, and if it is not, why."""
        if status < 400:
            return NotInForce(f"the kubelet may report {self.subject} unready")
        if self.policy in text:
            return InForce()
        return NotInForce(f"asked about {self.subject}, the API server answers {status}: {_message(text)}")


@dataclass(frozen=True, slots=True)
class InForce:
    """The guard denied what it has to deny."""


@dataclass(frozen=True, slots=True)
class NotInForce:
    """The guard did not deny it, or that cannot be tried; ``why`` is for people."""

    why: str


def node_trial(node: str) -> Trial:
    """Return a trial that reports the Node unready, as its kubelet."""
    return Trial(
        subject=f"node {node}",
        path=f"/api/v1/nodes/{quote(node)}/status",
        patch={"status": {"conditions": [_UNREADY]}},
        policy=NODE_POLICY,
    )


def pod_trials(pods: Iterable[Json]) -> tuple[Trial, ...]:
    """Return trials that report a pod unready. Any pod that a new kubelet has to probe again will do."""
    trials = (_pod_trial(pod) for pod in sorted(pods, key=_name) if _guardable(pod))
    return tuple(trial for trial, _ in zip(trials, range(TRIED_PODS), strict=False))


def exposure_seconds(pods: Iterable[Json]) -> int:
    """Return how many seconds after its start a new kubelet may take to probe every pod."""
    return ceil(longest_exposure(map(parse_pod, pods)).total_seconds())


def _message(text: str) -> str:
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text[:200]


def _guardable(pod: Json) -> bool:
    view = parse_pod(pod)
    return view.ready and view.whole and not view.leaving and view.exposure > MARGIN


def _pod_trial(pod: Json) -> Trial:
    namespace, name = _name(pod)
    return Trial(
        subject=f"pod {namespace}/{name}",
        path=f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(name)}/status",
        patch={"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [_UNREADY]}},
        policy=POD_POLICY,
    )


def _name(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


# How far a node's clock is off, told from its Node object without asking anybody.

KUBELET = "kubelet"


def ahead(node: Json) -> timedelta | None:
    """Return how far the node's clock is ahead of the API server's; ``None`` if the Node does not show it.

    A kubelet writes the time by its own clock into each status that it sends, and the API server (from 1.18 on) notes
    by its own when it stored that. So the difference contains the time that the request took.
    """
    status, metadata = node.get("status") or {}, node.get("metadata") or {}
    beats = (c.get("lastHeartbeatTime") for c in status.get("conditions") or () if c.get("type") == "Ready")
    stored = (
        entry.get("time")
        for entry in metadata.get("managedFields") or ()
        if entry.get("manager") == KUBELET and entry.get("subresource", "status") == "status"
    )
    by_node, by_server = moment(next(beats, None)), max(filter(None, map(moment, stored)), default=None)
    return None if by_node is None or by_server is None else by_node - by_server


def moment(text: object) -> datetime | None:
    """Read a time as the API serves it; ``None`` if it is none, or of no time zone."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found if found.tzinfo else None
