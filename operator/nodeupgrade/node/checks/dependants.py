"""What depends on the readiness of pods besides clients: disruption budgets, and what the API server itself calls."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json, from_json
from nodeupgrade.api.upgrade.nodes import LabelSelector
from nodeupgrade.text import integer


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    spare: int  # how many more of its pods may be unready
    selector: LabelSelector | None  # selects its pods; None if it selects none

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Report whether it is about a pod with these labels."""
        return self.selector is not None and namespace == self.namespace and self.selector.matches(labels)


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
        spare=integer((body.get("status") or {}).get("disruptionsAllowed") or 0),
        selector=from_json(LabelSelector, selector) if selects else None,
    )
