"""What depends on the readiness of pods besides clients: disruption budgets, and what the API server itself calls."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.upgrade.nodes import Requirement
from nodeupgrade.domain.placement import meets

_WEBHOOKS = frozenset({"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget.

    Attributes:
        spare: how many more of its pods may be unready.
        selector: selects its pods; ``None`` if it selects none.
    """

    namespace: str
    name: str
    spare: int
    selector: Json | None

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Report whether it is about a pod with these labels."""
        if self.selector is None or namespace != self.namespace:
            return False
        required = (self.selector.get("matchLabels") or {}).items()
        return all(labels.get(key) == value for key, value in required) and all(
            meets(_requirement(each), labels) for each in self.selector.get("matchExpressions") or ()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependants:
    """What depends on the readiness of pods.

    Attributes:
        callers: by Service, as ``namespace/name``, what the API server calls it for.
    """

    budgets: tuple[Budget, ...] = ()
    callers: tuple[tuple[str, str], ...] = ()


NOTHING_DEPENDS = Dependants()


def dependants(objects: Iterable[Json]) -> Dependants:
    """Parse PodDisruptionBudgets, configurations of webhooks and APIServices; other objects are left out."""
    listed = list(objects)
    callers = {pair for body in listed for pair in _callers(body)}
    return Dependants(
        budgets=tuple(budget for body in listed for budget in _budgets(body)), callers=tuple(sorted(callers))
    )


def _budgets(body: Json) -> Iterator[Budget]:
    if body.get("kind") != "PodDisruptionBudget":
        return
    metadata, selector = body["metadata"], (body.get("spec") or {}).get("selector")
    # An empty selector selects nothing in policy/v1beta1, and everything in policy/v1.
    selects = selector is not None and (bool(selector) or body.get("apiVersion") == "policy/v1")
    yield Budget(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        spare=int((body.get("status") or {}).get("disruptionsAllowed") or 0),
        selector=selector if selects else None,
    )


def _callers(body: Json) -> Iterator[tuple[str, str]]:
    kind, spec = body.get("kind"), body.get("spec") or {}
    if kind == "APIService":
        services = [spec.get("service")]
    elif kind in _WEBHOOKS:
        services = [(hook.get("clientConfig") or {}).get("service") for hook in body.get("webhooks") or ()]
    else:
        return
    for service in services:
        if service:
            yield f"{service.get('namespace')}/{service.get('name')}", f"{kind} {body['metadata']['name']}"


def _requirement(body: Any) -> Requirement:
    return Requirement(key=body["key"], operator=body["operator"], values=tuple(body.get("values") or ()))
