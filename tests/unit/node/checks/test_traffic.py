"""Tests the checks of probes, Services, and whatever depends on the readiness of Pods."""

from dataclasses import replace
from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.checks import probes, registry
from nodeupgrade.node.checks import traffic as traffic_checks
from nodeupgrade.node.checks.drift import Drift
from nodeupgrade.node.checks.traffic import Risk, Traffic, namespaces, risk_of
from tests.builders.dependants import API, ELSEWHERE, SERVICE, budget, found, hooks
from tests.builders.sound import NEW, facts, traffic
from tests.builders.traffic_cases import CAUTIONS, EXEC, GRPC, HTTP, HTTPS, KEPT, OBJECTIONS, TCP, V, clients, pod


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

    assert told.startswith(
        f"the API server calls Service shop/web for {called_for}, which has no other ready endpoint than shop/web:"
    )
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


def objections(seen: Traffic) -> tuple[Finding, ...]:
    return ask(checks_of(probes, traffic_checks, warns=False), seen)


def warnings(seen: Traffic) -> tuple[Finding, ...]:
    return ask(checks_of(probes, traffic_checks, warns=True), seen)


@pytest.mark.parametrize(("reason", "words", "given"), OBJECTIONS.values(), ids=OBJECTIONS.keys())
def test_what_forbids_a_run(reason: Reason, words: str, given: dict[str, Any]) -> None:
    seen = traffic(**given)

    (found,) = objections(seen)

    assert (found.reason, words in found.detail) == (reason, True), found.detail
    assert not warnings(seen)


@pytest.mark.parametrize(("reason", "words", "given"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_what_deserves_attention(reason: Reason, words: str, given: dict[str, Any]) -> None:
    seen = traffic(**given)

    (found,) = warnings(seen)

    assert (found.reason, words in found.detail) == (reason, True), found.detail
    assert not [*objections(seen)]


SILENT: dict[str, dict[str, Any]] = {
    "no probes": {"pods": [pod()], "clients": clients(Risk.REFUSED, web=("shop/web",))},
    "liveness vouches for the startup probe": {"pods": [pod(startupProbe=TCP, livenessProbe=TCP)]},
    "readiness vouches for the startup probe": {"pods": [pod(startupProbe=TCP, readinessProbe=TCP)]},
    "a kubelet that keeps results": {"pods": [pod(startupProbe=TCP)], "target": KEPT},
    "a kubelet without startup probes": {"pods": [pod(startupProbe=TCP)], "target": V("v1.17.17")},
    "a sidecar with a kubelet that was mended": {"pods": [pod(sidecar=True, startupProbe=TCP)], "target": V("v1.35.4")},
    "exec probes had a timeout before": {"pods": [pod(livenessProbe=EXEC)]},
    "exec probes get no timeout because of a gate": {
        "pods": [pod(livenessProbe=EXEC)], "current": V("v1.19.16"), "target": V("v1.20.15"),
        "gates": {"ExecProbeTimeout": False},
    },
    "gRPC probes ran before by a gate": {
        "pods": [pod(livenessProbe=GRPC)], "current": V("v1.23.17"), "target": V("v1.24.17"),
        "gates_before": {"GRPCContainerProbe": True}, "gates": {"GRPCContainerProbe": True},
    },
    "gRPC probes do not run because of a gate": {
        "pods": [pod(livenessProbe=GRPC)], "current": V("v1.23.17"), "target": V("v1.24.17"),
        "gates": {"GRPCContainerProbe": False},
    },
    "gRPC probes ran before": {
        "pods": [pod(livenessProbe=GRPC)], "current": V("v1.24.17"), "target": V("v1.27.16"),
    },
    "gRPC probes that kill nobody": {
        "pods": [pod(readinessProbe=GRPC)], "current": V("v1.23.17"), "target": V("v1.24.17"),
    },
    "HTTPS probes of kubelets that ask the same": {
        "pods": [pod(livenessProbe=HTTPS)], "current": V("v1.23.16"), "target": V("v1.29.14"),
    },
    "HTTPS probes on the way back": {
        "pods": [pod(livenessProbe=HTTPS)], "current": V("v1.30.14"), "target": V("v1.23.15"),
    },
    "probes without TLS": {"pods": [pod(livenessProbe=HTTP)], "current": V("v1.29.14"), "target": V("v1.30.14")},
    "unready as it is": {
        "pods": [pod(readinessProbe=HTTP), {**pod("db", readinessProbe=HTTP), "status": {}}],
        "clients": clients(Risk.REFUSED, db=("shop/db",)),
    },
    "somebody without probes answers": {
        "pods": [pod("db")], "clients": clients(Risk.ACCEPTED, db=("shop/db", "10.9.9.9")),
    },
    "a pod that is being deleted": {
        "pods": [{**pod(startupProbe=TCP, started=False), "metadata": {
            "namespace": "shop", "name": "web", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"}}],
    },
}  # fmt: skip


@pytest.mark.parametrize("given", SILENT.values(), ids=SILENT.keys())
def test_nothing_is_said_where_nothing_is_to_be_noticed(given: dict[str, Any]) -> None:
    seen = traffic(**given)

    assert ([*objections(seen)], warnings(seen)) == ([], ())


def test_the_gates_of_the_running_kubelet_count() -> None:
    seen = facts(traffic=traffic([pod(livenessProbe=EXEC)]), drift=Drift(gates={"ExecProbeTimeout": False}))

    assert Reason.EXEC_PROBE_TIMEOUT_ENFORCED in {each.reason for each in registry.warnings(seen)}
    seen = replace(seen, drift=Drift(gates={}))
    assert Reason.EXEC_PROBE_TIMEOUT_ENFORCED not in {each.reason for each in registry.warnings(seen)}


def test_many_pods_make_few_sentences() -> None:
    pods = [pod(f"web-{number}", readinessProbe=HTTP, startupProbe=TCP) for number in range(100)]
    alone = {f"web-{number}": (f"shop/web-{number}",) for number in range(100)}

    found = warnings(traffic(pods, clients=clients(Risk.ACCEPTED, **alone)))

    assert [each.reason for each in found] == [Reason.STARTUP_PROBE_RUNS_AGAIN] + 6 * [Reason.ENDPOINTS_WOULD_BE_LOST]
    assert "95 other Services: " in str(found[-1])
    assert all(len(str(each)) < 512 for each in found)


@pytest.mark.parametrize(
    ("policy", "risk"),
    [(GuardPolicy.AUTO, Risk.ACCEPTED), (GuardPolicy.REQUIRE, Risk.REFUSED), (GuardPolicy.OFF, Risk.NONE)],
)
def test_what_is_made_of_lost_endpoints_follows_the_policy(policy: GuardPolicy, risk: Risk) -> None:
    assert risk_of(NEW, policy, guarded=False) is risk
    assert risk_of(NEW, policy, guarded=True) is Risk.NONE
    assert risk_of(KEPT, policy, guarded=False) is Risk.NONE


def test_only_namespaces_of_pods_that_become_unready_are_asked_about() -> None:
    assert namespaces(map(parse_pod, (pod(), pod("db", readinessProbe=HTTP, ready=False)))) == ()
    assert namespaces(map(parse_pod, (pod(readinessProbe=HTTP), pod("b", sidecar=True, startupProbe=TCP)))) == ("shop",)
