"""What depends on the readiness of pods: how it is read, and when it deserves a warning."""

from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.dependants import dependants
from nodeupgrade.node.checks.traffic import Clients, Risk, Traffic, api_server_keeps_its_webhooks, budgets_are_kept
from tests.unit.domain.node.checks.sound import traffic
from tests.unit.domain.node.checks.test_traffic import HTTP, KEPT, pod

POD = pod(readinessProbe=HTTP)
POD["metadata"]["labels"] = {"app": "web"}
SERVICE = {"namespace": "shop", "name": "web"}
ELSEWHERE = frozenset({"shop/web", "shop/web-2"})


def budget(selector: Any, spare: int = 0, version: str = "policy/v1") -> dict[str, Any]:
    return {
        "apiVersion": version, "kind": "PodDisruptionBudget", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"selector": selector}, "status": {"disruptionsAllowed": spare},
    }  # fmt: skip


def hooks(kind: str, *services: Any) -> dict[str, Any]:
    return {
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "policies"},
        "webhooks": [{"clientConfig": {"service": service}} for service in services],
    }


API = {"kind": "APIService", "metadata": {"name": "v1.metrics"}, "spec": {"service": SERVICE}}
LOCAL_API = {"kind": "APIService", "metadata": {"name": "v1.apps"}, "spec": {}}


def seen(*objects: dict[str, Any], ready: frozenset[str] = frozenset({"shop/web"}), **given: Any) -> Traffic:
    known = Clients(
        risk=given.pop("risk", Risk.ACCEPTED),
        services={"shop/web": ready},
        dependants=dependants(objects),
    )
    return traffic([POD], clients=known, **given)


def found(*objects: dict[str, Any], **given: Any) -> list[str]:
    findings = ask((api_server_keeps_its_webhooks, budgets_are_kept), seen(*objects, **given))
    assert {(each.reason, each.forbids) for each in findings} <= {(Reason.ENDPOINTS_WOULD_BE_LOST, False)}
    return [each.detail for each in findings]


@pytest.mark.parametrize(
    ("body", "called_for"),
    [
        (hooks("Validating", None, SERVICE), "ValidatingWebhookConfiguration policies"),
        (hooks("Mutating", SERVICE, SERVICE), "MutatingWebhookConfiguration policies"),
        (API, "APIService v1.metrics"),
    ],
)
def test_a_service_that_the_api_server_calls_is_told(body: dict[str, Any], called_for: str) -> None:
    (told,) = found(body)

    assert told.startswith(f"the API server calls Service shop/web for {called_for}, and nobody but shop/web answers")
    assert found(body, ready=ELSEWHERE) == []
    assert found(body, risk=Risk.NONE) == []


@pytest.mark.parametrize(
    ("body", "warned"),
    [
        (budget({"matchLabels": {"app": "web"}}), True),
        (budget({"matchLabels": {"app": "web"}}, spare=1), False),
        (budget({"matchLabels": {"app": "db"}}), False),
        (budget({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}), True),
        (budget({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), False),
        (budget({}), True),
        (budget({}, version="policy/v1beta1"), False),
        (budget(None), False),
        ({**budget({}), "metadata": {"namespace": "other", "name": "web"}}, False),
    ],
)
def test_a_budget_with_less_to_spare_than_the_node_takes_is_told(body: dict[str, Any], warned: bool) -> None:
    told = found(body)

    assert [each.startswith("PodDisruptionBudget shop/web allows 0 disruptions now") for each in told] == [
        True
    ] * warned
    assert found(body, risk=Risk.NONE) == []


def test_what_calls_nobody_is_no_dependant() -> None:
    assert dependants([LOCAL_API, hooks("Validating", None), {"kind": "Service", "metadata": SERVICE}]).callers == ()
    assert found() == found(API, ready=ELSEWHERE, target=KEPT) == []
