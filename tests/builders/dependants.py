"""Builds objects that depend on the readiness of Pods."""

from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.findings.check import ask
from nodeupgrade.node.checks.dependants import dependants
from nodeupgrade.node.checks.traffic import Clients, Risk, Traffic, api_server_keeps_its_webhooks, budgets_are_kept
from tests.builders.sound import traffic
from tests.builders.traffic_cases import HTTP, pod

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
