"""What is foretold of probes and of Services' endpoints: what forbids a run, what is only said, and what is not."""

from typing import Any

import pytest

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.run_settings import GuardPolicy
from nodeupgrade.cluster.pods import parse_pod
from nodeupgrade.findings.check import ask, checks_of
from nodeupgrade.findings.finding import Finding
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks import probes
from nodeupgrade.node.checks import traffic as traffic_checks
from nodeupgrade.node.checks.service_endpoints import answering
from nodeupgrade.node.checks.traffic import Clients, Risk, Traffic, namespaces, risk_of
from tests.unit.domain.node.checks.sound import NEW, traffic

V = KubeletVersion.parse
KEPT = V("v1.35.5")
HTTP = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 5, "timeoutSeconds": 1}
TCP = {"tcpSocket": {"port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
EXEC = {"exec": {"command": ["true"]}, "periodSeconds": 10, "timeoutSeconds": 1}


def pod(name: str = "web", *, sidecar: bool = False, ready: bool = True, **fields: Any) -> dict[str, Any]:
    """A pod with one container; fields that are no probes go into the container's status."""
    asked = {key: fields.pop(key) for key in [*fields] if key.endswith("Probe")}
    container = {"name": "app", **asked, **({"restartPolicy": "Always"} if sidecar else {})}
    status = {"name": "app", "state": {"running": {}}, "ready": ready, "started": True, **fields}
    return {
        "metadata": {"namespace": "shop", "name": name, "uid": name},
        "spec": {"initContainers" if sidecar else "containers": [container]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "initContainerStatuses" if sidecar else "containerStatuses": [status],
        },
    }


def slices(service: str, *names: str, **conditions: bool) -> dict[str, Any]:
    endpoints = [{"targetRef": {"kind": "Pod", "namespace": "shop", "name": name}} for name in names]
    return {
        "kind": "EndpointSlice",
        "metadata": {"namespace": "shop", "name": f"{service}-x", "labels": {"kubernetes.io/service-name": service}},
        "endpoints": [{**each, "addresses": ["10.0.0.1"], "conditions": conditions} for each in endpoints],
    }


def clients(risk: Risk, **answering_now: tuple[str, ...]) -> Clients:
    return Clients(risk=risk, services={f"shop/{name}": frozenset(who) for name, who in answering_now.items()})


def objections(seen: Traffic) -> tuple[Finding, ...]:
    return ask(checks_of(probes, traffic_checks, warns=False), seen)


def warnings(seen: Traffic) -> tuple[Finding, ...]:
    return ask(checks_of(probes, traffic_checks, warns=True), seen)


OBJECTIONS: dict[str, tuple[Reason, str, dict[str, Any]]] = {
    "not started yet": (
        Reason.POD_IN_TRANSITION, "may kill it after 20 s of failures",
        {"pods": [pod(startupProbe=TCP, started=False, ready=False)], "settle": 20.0},
    ),
    "not started yet, for a kubelet that keeps results": (
        Reason.POD_IN_TRANSITION, "has not succeeded yet",
        {"pods": [pod(startupProbe=TCP, started=False, ready=False)], "target": KEPT},
    ),
    "the startup probe would fail": (
        Reason.STARTUP_PROBE_RUNS_AGAIN, "kills it after 30 s of failures",
        {"pods": [pod(startupProbe=TCP, readinessProbe={**TCP, "timeoutSeconds": 2}, ready=False)]},
    ),
    "a sidecar that breaks its pod": (
        Reason.KUBELET_DEFECT, "#136910", {"pods": [pod(sidecar=True, startupProbe=TCP)], "target": V("v1.35.3")},
    ),
    "a Service would be deserted": (
        Reason.ENDPOINTS_WOULD_BE_LOST,
        "Service shop/web has no other ready endpoint than shop/web: nobody would answer for it for up to 16 s",
        {"pods": [pod(readinessProbe=HTTP)], "clients": clients(Risk.REFUSED, web=("shop/web",))},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "words", "given"), OBJECTIONS.values(), ids=OBJECTIONS.keys())
def test_what_forbids_a_run(reason: Reason, words: str, given: dict[str, Any]) -> None:
    facts = traffic(**given)

    (found,) = objections(facts)

    assert (found.reason, words in found.detail) == (reason, True), found.detail
    assert not warnings(facts)


CAUTIONS: dict[str, tuple[Reason, str, dict[str, Any]]] = {
    "readiness fails": (
        Reason.PROBE_FAILS, "the readiness probes of 1 container fail now: shop/web/app; kubelet v1.33.13 may report",
        {"pods": [pod(readinessProbe=HTTP, ready=False)]},
    ),
    "a startup probe that nothing vouches for": (
        Reason.STARTUP_PROBE_RUNS_AGAIN, "the first after 30 s", {"pods": [pod(startupProbe=TCP, livenessProbe=HTTP)]},
    ),
    "a startup probe that is quicker than what vouches for it": (
        Reason.STARTUP_PROBE_RUNS_AGAIN, "startup probes of 1 container again",
        {"pods": [pod(startupProbe=TCP, livenessProbe={**TCP, "timeoutSeconds": 5})]},
    ),
    "not started yet, and not to be killed for it while anybody looks": (
        Reason.STARTUP_PROBE_RUNS_AGAIN, "the first after 30 s",
        {"pods": [pod(startupProbe=TCP, started=False, ready=False)], "settle": 19.0},
    ),
    "exec probes get a timeout": (
        Reason.EXEC_PROBE_TIMED, "1 container with such probes: shop/web/app",
        {"pods": [pod(livenessProbe=EXEC)], "current": V("v1.19.16"), "target": V("v1.20.15")},
    ),
    "a Service would be deserted": (
        Reason.ENDPOINTS_WOULD_BE_LOST, "probed what is behind it",
        {"pods": [pod(readinessProbe=HTTP)], "clients": clients(Risk.ACCEPTED, web=("shop/web",))},
    ),
    "a Service keeps some": (
        Reason.ENDPOINTS_WOULD_BE_LOST, "1 Service (shop/web) would keep some endpoints and lose others for up to 16 s",
        {"pods": [pod(readinessProbe=HTTP)], "clients": clients(Risk.REFUSED, web=("shop/web", "shop/web-2"))},
    ),
    "nobody knows": (
        Reason.SERVICES_NOT_READ, "it is forbidden", {"clients": Clients(risk=Risk.REFUSED, unread="it is forbidden")},
    ),
    "the node flaps": (
        Reason.ENDPOINTS_WOULD_BE_LOST, "#124430", {"clients": clients(Risk.ACCEPTED), "target": V("v1.30.14")},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("reason", "words", "given"), CAUTIONS.values(), ids=CAUTIONS.keys())
def test_what_deserves_attention(reason: Reason, words: str, given: dict[str, Any]) -> None:
    facts = traffic(**given)

    (found,) = warnings(facts)

    assert (found.reason, words in found.detail) == (reason, True), found.detail
    assert not [*objections(facts)]


SILENT: dict[str, dict[str, Any]] = {
    "no probes": {"pods": [pod()], "clients": clients(Risk.REFUSED, web=("shop/web",))},
    "liveness vouches for the startup probe": {"pods": [pod(startupProbe=TCP, livenessProbe=TCP)]},
    "readiness vouches for the startup probe": {"pods": [pod(startupProbe=TCP, readinessProbe=TCP)]},
    "a kubelet that keeps results": {"pods": [pod(startupProbe=TCP)], "target": KEPT},
    "a kubelet without startup probes": {"pods": [pod(startupProbe=TCP)], "target": V("v1.17.17")},
    "a sidecar with a kubelet that was mended": {"pods": [pod(sidecar=True, startupProbe=TCP)], "target": V("v1.35.4")},
    "exec probes had a timeout before": {"pods": [pod(livenessProbe=EXEC)]},
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
    facts = traffic(**given)

    assert ([*objections(facts)], warnings(facts)) == ([], ())


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


def test_who_answers_is_read_from_slices_and_from_endpoints() -> None:
    headless = {"kind": "Service", "metadata": {"namespace": "shop", "name": "raft"}}
    subset = {
        "addresses": [{"ip": "10.0.0.1", "targetRef": {"kind": "Pod", "name": "old"}}, {"ip": "10.9.9.9"}],
        "notReadyAddresses": [{"ip": "10.0.0.2"}],
    }
    found = answering(
        [
            {**headless, "spec": {"publishNotReadyAddresses": True}},
            slices("raft", "raft-0"),
            slices("web", "web-1"),
            slices("web", "web-2", ready=True),
            slices("web", "web-3", ready=False),
            {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "nobody's"}, "endpoints": None},
            {"kind": "Endpoints", "metadata": {"namespace": "shop", "name": "old"}, "subsets": [subset]},
        ]
    )

    assert found == {"shop/old": {"shop/old", "10.9.9.9"}, "shop/web": {"shop/web-1", "shop/web-2"}}
