"""The registry of a node's checks, by module, in the order in which their findings are reported.

Nothing on the node may be changed before every check passes. A check is registered by its definition in one of these
modules; a new kind of facts needs a line in ``_READ``. Checks that need only the API server are in
``fleet/decide/admission_checks.py``. docs/generated/preflight.md lists all of them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from nodeupgrade.findings.check import Check, ask, checks_of
from nodeupgrade.findings.finding import Finding
from nodeupgrade.node.checks import (
    admission,
    apparmor,
    cgroups,
    changed_settings,
    credentials,
    drift,
    files,
    hashes,
    host,
    kubelet,
    other_tools,
    placement,
    pod_features,
    pod_lifecycle,
    pod_security,
    pods,
    probes,
    resizing,
    resource_managers,
    resources,
    runtime,
    runtime_drift,
    startup,
    state_files,
    static_pod_references,
    traffic,
    units,
    volumes,
)
from nodeupgrade.node.checks.facts import Admission, NodeFacts
from nodeupgrade.node.checks.hashes import Proof
from nodeupgrade.node.runtimes.description import RuntimeAsFound

_ADMITTING = (
    resources,
    placement,
    admission,
    apparmor,
    pod_features,
    static_pod_references,
    resource_managers,
    pod_security,
)
"""Whether a kubelet that starts would admit every pod again."""

_MODULES = (
    kubelet,
    runtime,
    runtime_drift,
    units,
    pods,
    cgroups,
    resizing,
    startup,
    changed_settings,
    credentials,
    host,
    state_files,
    probes,
    traffic,
    drift,
    *_ADMITTING,
    pod_lifecycle,
    volumes,
    other_tools,
    files,
)

OF_ADMISSION: tuple[Check[Admission], ...] = tuple(
    check for warns in (False, True) for check in checks_of(*_ADMITTING, warns=warns) if check.facts is Admission
)
"""Checks of what the admission of pods depends on, which is asked for both kubelets."""

_READ: Mapping[type[object], Callable[[NodeFacts], object | None]] = {
    NodeFacts: lambda facts: facts,
    RuntimeAsFound: lambda facts: (
        replace(facts.runtime_found, restartable=runtime.may_be_restarted(facts))
        if runtime.is_restarted(facts)
        else None
    ),
    startup.Readiness: lambda facts: facts.readiness if runtime.is_as_expected(facts) else None,
    traffic.Traffic: lambda facts: replace(facts.traffic, gates=facts.gates, gates_before=facts.gates_before),
    drift.Drift: lambda facts: facts.drift,
    Admission: lambda facts: facts.admission,
    files.FilesFound: lambda facts: facts.files,
}
"""How the facts that a check judges are read; ``None`` where it does not apply."""


def _reading(checks: Iterable[Check[Any]]) -> tuple[Check[NodeFacts], ...]:
    return tuple(check.of(_READ[check.facts]) for check in checks)


CHECKS = _reading(checks_of(*_MODULES, warns=False))
"""Checks that may forbid a run."""

WAY_BACK: tuple[Check[NodeFacts], ...] = tuple(
    check.of(lambda facts: None if facts.files is None else facts.way_back) for check in OF_ADMISSION if not check.warns
)
"""Checks of the old kubelet with the old files, where files are exchanged."""

_TOGETHER: tuple[Check[Admission], ...] = (resources.pods_fit, admission.host_ports_are_free)
"""Checks that count what pods ask for together. All others judge each pod by itself."""

PROOFS: tuple[Check[Proof], ...] = (*checks_of(hashes, warns=False), *checks_of(hashes, warns=True))
"""Checks that may forbid it once its hashes are planned; reported last."""

WARNINGS = _reading(checks_of(*_MODULES, warns=True))
"""Checks that only warn, before and after a run."""


def preflight(facts: NodeFacts) -> tuple[Finding, ...]:
    """Return the findings that forbid a run unless they are accepted, as far as the node's facts show."""
    found = ask((*CHECKS, *WAY_BACK), facts, facts.spec.preflight.accept)
    return tuple(dict.fromkeys(found))


def crowding(facts: NodeFacts) -> tuple[Finding, ...]:
    """Return the findings of what pods ask for together, with either kubelet."""
    kubelets = (facts.admission,) if facts.files is None else (facts.admission, facts.way_back)
    return tuple(found for each in kubelets for found in ask(_TOGETHER, each, facts.spec.preflight.accept))


def refusals(facts: NodeFacts, proven: Proof) -> tuple[Finding, ...]:
    """Return the findings of all checks that may forbid a run; if none does, the run is permitted."""
    return (*preflight(facts), *ask(PROOFS, proven, facts.spec.preflight.accept))


def warnings(facts: NodeFacts) -> tuple[Finding, ...]:
    """Return the findings that only warn."""
    return ask(WARNINGS, facts)
