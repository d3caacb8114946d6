"""Checks of probes: which containers a new kubelet would kill because of them, and which results cannot be predicted.

Everything is taken from the pods. No probe is run: an exec probe is a program of the workload, and examining a node
must not run any. So a check forbids a run only where the pod itself proves the harm, and warns otherwise.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nodeupgrade.api.json import Json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.wording import counted
from nodeupgrade.cluster.pods import Pod, Role
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelet import history, known_defects
from nodeupgrade.kubelet.probe_delay import keeps_probes, period, timeout
from nodeupgrade.kubelethash import KubeletVersion
from nodeupgrade.node.checks.traffic import Traffic
from nodeupgrade.text import integer

_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_KINDS = ("startupProbe", "readinessProbe", "livenessProbe")


@dataclass(frozen=True, slots=True)
class _Running:
    """A running container, with its spec and its status."""

    label: str
    role: Role
    spec: Json
    status: Json


@check(
    Reason.POD_IN_TRANSITION,
    Reason.STARTUP_PROBE_RUNS_AGAIN,
    Reason.KUBELET_DEFECT,
    Hazard.PROBE_FAILS_AT_ONCE,
    Hazard.SIDECAR_STOPS_RESTARTS,
    history.STARTUP_PROBES,
    history.PROBES_KEPT,
    known_defects.SIDECAR_STOPS_RESTARTS,
)
def probes_let_containers_live(facts: Traffic) -> Iterator[Found]:
    """The new kubelet kills no container because of its startup probe, and still restarts containers that crash.

    Any kubelet kills a container whose startup probe never succeeds. A kubelet that starts counts failures from zero,
    so a pending startup probe forbids the run only if the container may be killed before the run is over.
    """
    target, defect = facts.target, known_defects.SIDECAR_STOPS_RESTARTS
    for container in _running(facts.pods):
        if (startup := container.spec.get("startupProbe")) is None:
            continue
        if container.status.get("started") is False:
            if (soonest := _deadline(startup) - period(startup)) <= facts.settle:
                detail = (
                    f"its startup probe has not succeeded yet, and kubelet {target} may kill it after {soonest} s of "
                    "failures, while the run still watches it: wait until it has"
                )
                yield container.label, detail
        elif _runs_again(target) and _fails_now(container):
            detail = (
                f"kubelet {target} runs its startup probe again and kills it after {_deadline(startup)} s of failures; "
                "the readiness probe checks the same and fails now"
            )
            yield Finding(reason=Reason.STARTUP_PROBE_RUNS_AGAIN, subject=container.label, detail=detail)
        elif container.role is Role.SIDECAR and defect.affects(target):
            detail = (
                f"it is a sidecar with a startup probe, beside which kubelet {target} does not start crashed "
                f"containers again ({defect.reference}, fixed in {defect.fixed_after(target)})"
            )
            yield Finding(reason=Reason.KUBELET_DEFECT, subject=container.label, detail=detail)


@check(Reason.READINESS_PROBE_FAILING, Hazard.ENDPOINTS_LOST, history.PROBES_KEPT)
def readiness_probes_succeed(facts: Traffic) -> Iterator[Found]:
    """No readiness probe fails already."""
    failing = [c.label for c in _not_refused(facts) if "readinessProbe" in c.spec and _is_unready(c)]
    if failing:
        moment = "" if keeps_probes(facts.target) else (
            f"; kubelet {facts.target} may report their pods Ready for a moment when it starts (kubernetes #135795)"
        )  # fmt: skip
        yield f"the readiness probes of {counted(len(failing), 'container')} fail now: {named(failing)}{moment}"


@check(
    Reason.STARTUP_PROBE_RUNS_AGAIN, Hazard.PROBE_FAILS_AT_ONCE, history.STARTUP_PROBES, history.PROBES_KEPT, warns=True
)
def startup_probes_succeed_again(facts: Traffic) -> Iterator[Found]:
    """Every startup probe that the new kubelet runs again is known to succeed now."""
    running, target = _not_refused(facts), facts.target
    again = [c for c in running if _runs_again(target) and "startupProbe" in c.spec and not _succeeds_now(c)]
    if again:
        first = min(_deadline(container.spec["startupProbe"]) for container in again)
        yield (
            f"kubelet {target} runs the startup probes of {counted(len(again), 'container')} again, and kills "
            f"those that keep failing, the first after {first} s; make sure that these probes succeed as long as their "
            f"containers run: {named([container.label for container in again])}"
        )


@check(Reason.EXEC_PROBE_TIMEOUT_ENFORCED, Hazard.EXEC_PROBE_TIMED, history.EXEC_PROBES_TIMED)
def exec_probes_are_timed_already(facts: Traffic) -> Iterator[Found]:
    """The new kubelet is not the first to enforce the timeout of exec probes, by its version or its feature gate."""
    target, current = facts.target, facts.current
    timed = [c.label for c in _not_refused(facts) if any("exec" in (c.spec.get(kind) or {}) for kind in _KINDS)]
    before = current is None or _times_exec_probes(current, facts.gates_before)
    if timed and not before and _times_exec_probes(target, facts.gates):
        yield (
            f"kubelet {target} is the first for which exec probes fail that take longer than their timeoutSeconds (1 "
            f"unless set); {counted(len(timed), 'container')} with such probes: {named(timed)}"
        )


@check(Reason.GRPC_PROBE_RUNS_FIRST, Hazard.GRPC_PROBE_BEGINS, history.GRPC_PROBES)
def grpc_probes_run_already(facts: Traffic) -> Iterator[Found]:
    """The new kubelet is not the first to run gRPC probes that kill containers, by its version or its feature gate.

    A kubelet that does not run them finds no such container wrong, however long the probe would have failed.
    """
    target, current = facts.target, facts.current
    if current is None or _runs_grpc(current, facts.gates_before) or not _runs_grpc(target, facts.gates):
        return
    killing = ("startupProbe", "livenessProbe")
    probed = [c.label for c in _not_refused(facts) if any("grpc" in (c.spec.get(kind) or {}) for kind in killing)]
    if probed:
        yield (
            f"kubelet {target} is the first to run gRPC probes, and kills containers whose probes fail; "
            f"{counted(len(probed), 'container')} with such liveness or startup probes: {named(probed)}"
        )


_REFUSED = {
    history.RSA_EXCHANGE_GONE: "RSA key exchange only",
    history.TRIPLE_DES_GONE: "3DES only, or a certificate with a negative serial number",
    history.SHORT_KEYS_REFUSED: "an RSA key of less than 1024 bits",
    history.SHA1_REFUSED: "TLS 1.2 with SHA-1 signatures only",
}


@check(Reason.HTTPS_PROBE_MAY_FAIL, Hazard.HTTPS_PROBE_REFUSED, known_defects.OLD_TLS_PROBED, *_REFUSED)
def https_probes_keep_their_tls(facts: Traffic) -> Iterator[Found]:
    """The new kubelet is not the first whose HTTPS probes refuse old TLS, ciphers, keys or signatures.

    Neither a kubelet's settings nor the probe say anything of TLS; the defaults of the Go that it is built with decide.
    """
    target, current = facts.target, facts.current
    tls, refused = known_defects.OLD_TLS_PROBED, list[str]()
    if current is not None and tls.affects(current) and not tls.affects(target):
        refused.append(f"no TLS after 1.1 ({tls.reference})")
    refused += (f"{what} ({each.reference})" for each, what in _REFUSED.items() if each.begins_between(current, target))
    probed = [c.label for c in _not_refused(facts) if any(map(_is_https, map(c.spec.get, _KINDS)))] if refused else []
    if probed:
        yield (
            f"kubelet {target} is the first for which HTTPS probes fail where a server offers {' or '.join(refused)}; "
            f"{counted(len(probed), 'container')} with such probes: {named(probed)}"
        )


def _times_exec_probes(version: KubeletVersion, gates: Mapping[str, bool]) -> bool:
    return history.EXEC_PROBES_TIMED.applies_to(version) and gates.get("ExecProbeTimeout") is not False


def _runs_grpc(version: KubeletVersion, gates: Mapping[str, bool]) -> bool:
    return gates.get("GRPCContainerProbe", history.GRPC_PROBES.applies_to(version))


def _is_https(probe: Json | None) -> bool:
    return str(((probe or {}).get("httpGet") or {}).get("scheme")).upper() == "HTTPS"


def _not_refused(facts: Traffic) -> list[_Running]:
    """Return the running containers, except those that ``probes_let_containers_live`` refuses."""
    refused = {finding.subject for finding in probes_let_containers_live(facts)}
    return [container for container in _running(facts.pods) if container.label not in refused]


def _running(pods: Iterable[Pod]) -> Iterator[_Running]:
    for pod in pods:
        if pod.leaving:
            continue
        states = pod.states
        for container in pod.containers:
            state = states.get(container.name)
            if container.role in {Role.REGULAR, Role.SIDECAR} and state and "running" in (state.get("state") or {}):
                yield _Running(f"{pod.ref}/{container.name}", container.role, container.spec, state)


def _is_unready(container: _Running) -> bool:
    """Report whether its readiness probe fails; it is not run before the startup probe succeeds."""
    return container.status.get("ready") is False and container.status.get("started") is not False


def _runs_again(target: KubeletVersion) -> bool:
    return history.STARTUP_PROBES.applies_to(target) and not keeps_probes(target)


def _fails_now(container: _Running) -> bool:
    """Report whether the readiness probe is the same as the startup probe, has at least its timeout, and fails now."""
    startup, readiness = container.spec["startupProbe"], container.spec.get("readinessProbe") or {}
    return _is_unready(container) and _same_handler(startup, readiness) and timeout(startup) <= timeout(readiness)


def _succeeds_now(container: _Running) -> bool:
    """Report whether the same probe, with at most its timeout, succeeds as liveness or readiness probe.

    A liveness probe counts as successful: otherwise the kubelet would kill the container.
    """
    startup = container.spec["startupProbe"]
    kinds = ("livenessProbe", "readinessProbe") if container.status.get("ready") is True else ("livenessProbe",)
    others = (container.spec.get(kind) or {} for kind in kinds)
    return any(_same_handler(startup, other) and timeout(startup) >= timeout(other) for other in others)


def _same_handler(startup: Json, other: Json) -> bool:
    """Report whether two probes have the same handler."""
    return any(handler in startup for handler in _HANDLERS) and all(
        startup.get(handler) == other.get(handler) for handler in _HANDLERS
    )


def _deadline(probe: Json) -> int:
    """Return after how many seconds of failures a kubelet kills the container."""
    return integer(probe.get("failureThreshold") or 3) * period(probe)
