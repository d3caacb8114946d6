"""Builds Pods with probes, and provides cases that the traffic checks report."""

from typing import Any

from nodeupgrade.api.reasons import Reason
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.traffic import Clients, Risk

V = KubeletVersion.parse
KEPT = V("v1.35.5")
HTTP = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 5, "timeoutSeconds": 1}
HTTPS = {"httpGet": {"path": "/healthz", "port": 8443, "scheme": "HTTPS"}, "periodSeconds": 30}
TCP = {"tcpSocket": {"port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1, "failureThreshold": 3}
EXEC = {"exec": {"command": ["true"]}, "periodSeconds": 10, "timeoutSeconds": 1}
GRPC = {"grpc": {"port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1}


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


def clients(risk: Risk, **answering_now: tuple[str, ...]) -> Clients:
    return Clients(risk=risk, services={f"shop/{name}": frozenset(who) for name, who in answering_now.items()})


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
        "Service shop/web has no other ready endpoint than shop/web: it would have none for up to 16 s",
        {"pods": [pod(readinessProbe=HTTP)], "clients": clients(Risk.REFUSED, web=("shop/web",))},
    ),
}  # fmt: skip


CAUTIONS: dict[str, tuple[Reason, str, dict[str, Any]]] = {
    "readiness fails": (
        Reason.READINESS_PROBE_FAILING,
        "the readiness probes of 1 container fail now: shop/web/app; kubelet v1.33.13 may report",
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
        Reason.EXEC_PROBE_TIMEOUT_ENFORCED, "1 container with such probes: shop/web/app",
        {"pods": [pod(livenessProbe=EXEC)], "current": V("v1.19.16"), "target": V("v1.20.15")},
    ),
    "exec probes get a timeout by a gate": (
        Reason.EXEC_PROBE_TIMEOUT_ENFORCED, "1 container with such probes: shop/web/app",
        {"pods": [pod(livenessProbe=EXEC)], "gates_before": {"ExecProbeTimeout": False}},
    ),
    "gRPC probes run": (
        Reason.GRPC_PROBE_RUNS_FIRST, "1 container with such liveness or startup probes: shop/web/app",
        {"pods": [pod(livenessProbe=GRPC)], "current": V("v1.23.17"), "target": V("v1.24.17")},
    ),
    "gRPC probes run by a gate": (
        Reason.GRPC_PROBE_RUNS_FIRST, "kubelet v1.25.16 is the first to run gRPC probes",
        {
            "pods": [pod(startupProbe=GRPC, livenessProbe=GRPC)], "current": V("v1.24.17"), "target": V("v1.25.16"),
            "gates_before": {"GRPCContainerProbe": False},
        },
    ),
    "HTTPS probes need TLS 1.2": (
        Reason.HTTPS_PROBE_MAY_FAIL, "TLS after 1.1 (kubernetes #113983); 1 container with such probes: shop/web/app",
        {"pods": [pod(livenessProbe=HTTPS)], "current": V("v1.23.15"), "target": V("v1.23.16")},
    ),
    "HTTPS probes need another key exchange than RSA": (
        Reason.HTTPS_PROBE_MAY_FAIL, "where a server offers RSA key exchange only (kubernetes #123217)",
        {"pods": [pod(livenessProbe=HTTPS)], "current": V("v1.29.14"), "target": V("v1.30.14")},
    ),
    "HTTPS probes need another cipher, and longer keys": (
        Reason.HTTPS_PROBE_MAY_FAIL, "(kubernetes #127611) or an RSA key of less than 1024 bits (enhancements #3744);",
        {"pods": [pod(livenessProbe=HTTPS)], "current": V("v1.31.14"), "target": V("v1.33.13")},
    ),
    "HTTPS probes need another signature than SHA-1": (
        Reason.HTTPS_PROBE_MAY_FAIL, "offers TLS 1.2 with SHA-1 signatures only (kubernetes #134120)",
        {"pods": [pod(livenessProbe=HTTPS)], "current": V("v1.34.4"), "target": KEPT},
    ),
    "HTTPS probes need both": (
        Reason.HTTPS_PROBE_MAY_FAIL, "no TLS after 1.1 (kubernetes #113983) or RSA key exchange only (kubernetes #",
        {"pods": [pod(livenessProbe=HTTPS)], "current": V("v1.22.17"), "target": V("v1.30.14")},
    ),
    "a Service would be deserted": (
        Reason.ENDPOINTS_WOULD_BE_LOST, "probed its pods",
        {"pods": [pod(readinessProbe=HTTP)], "clients": clients(Risk.ACCEPTED, web=("shop/web",))},
    ),
    "a Service keeps some": (
        Reason.ENDPOINTS_WOULD_BE_LOST, "1 Service (shop/web) would keep some endpoints and lose others for up to 16 s",
        {"pods": [pod(readinessProbe=HTTP)], "clients": clients(Risk.REFUSED, web=("shop/web", "shop/web-2"))},
    ),
    "nobody knows": (
        Reason.SERVICES_NOT_READABLE, "it is forbidden",
        {"clients": Clients(risk=Risk.REFUSED, unread="it is forbidden")},
    ),
    "the node flaps": (
        Reason.ENDPOINTS_WOULD_BE_LOST, "#124430", {"clients": clients(Risk.ACCEPTED), "target": V("v1.30.14")},
    ),
}  # fmt: skip
