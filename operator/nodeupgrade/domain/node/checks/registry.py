"""The registry of a node's checks, by module, in the order in which their findings are reported.

Nothing on the node may be changed before every check passes. To add a check, add it to the ``CHECKS`` of its module; to
add a module, add it here, with the facts that its checks judge. Checks that need only the API server are in
``rollout/admission.py``. docs/generated/preflight.md lists all of them.
"""

from collections.abc import Callable
from typing import TypeVar

from nodeupgrade.domain.check import Check, ask
from nodeupgrade.domain.hazards import Finding
from nodeupgrade.domain.node.checks import (
    admission,
    condition,
    drift,
    files,
    hashes,
    host,
    kubelet,
    placement,
    pod_security,
    pods,
    probes,
    resources,
    runtime,
    services,
    startup,
    state,
    surroundings,
    units,
    volumes,
)
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.domain.node.checks.hashes import Proof

F = TypeVar("F")


def _reading(
    read: Callable[[NodeFacts], F],
    checks: tuple[Check[F], ...],
    when: Callable[[NodeFacts], bool] = lambda _: True,
) -> tuple[Check[NodeFacts], ...]:
    return tuple(check.of(read, when) for check in checks)


def _files(facts: NodeFacts) -> files.FilesFound:
    if facts.files is None:
        raise LookupError("no files are exchanged")
    return facts.files


ADMISSION: tuple[Check[admission.Admission], ...] = (
    placement.pods_fit,
    *admission.CHECKS,
    *resources.CHECKS,
    placement.host_ports_are_free,
    placement.labels_are_read_first,
    placement.labels_tell_the_platform,
    pod_security.groups_policy_is_supported,
    pod_security.user_namespaces_are_recorded,
    admission.static_pods_stand_alone,
)
"""Checks of whether a kubelet that starts would admit every pod again."""

ADMISSION_WARNINGS: tuple[Check[admission.Admission], ...] = (
    *pod_security.WARNINGS,
    resources.claims_are_recorded,
    resources.ended_pods_keep_their_phase,
)

CHECKS: tuple[Check[NodeFacts], ...] = (
    runtime.runtime_is_understood,  # before the flags: some matter only to a kubelet that talks to it by itself
    *kubelet.CHECKS,
    *runtime.CHECKS,
    *_reading(lambda facts: facts.runtime_found, runtime.HARMFUL, when=runtime.is_restarted),
    *_reading(lambda facts: facts.runtime_found, runtime.CURABLE, when=runtime.may_be_restarted),
    *_reading(lambda facts: facts.units, units.CHECKS),
    *pods.CHECKS,
    kubelet.there_is_space,
    *_reading(
        lambda facts: facts.readiness,
        (*startup.CHECKS, *host.CHECKS, *state.CHECKS),
        when=runtime.is_as_expected,
    ),
    runtime.runtime_survives_a_restart,
    runtime.required_shield_is_possible,
    kubelet.required_guard_can_be_confirmed,
    *_reading(lambda facts: facts.traffic, probes.CHECKS),
    *_reading(lambda facts: facts.traffic, services.CHECKS),
    *_reading(lambda facts: facts.drift, drift.CHECKS),
    *_reading(lambda facts: facts.admission, ADMISSION),
    state.devices_are_on_record.of(lambda facts: facts.admission),
    pods.placements_are_met,
    pods.taints_are_tolerated,
    *condition.CHECKS,
    kubelet.health_can_be_asked,
    *kubelet.RELEASES,
    *_reading(lambda facts: facts.volumes, volumes.CHECKS),
    *_reading(lambda facts: facts.surroundings, surroundings.CHECKS),
    *_reading(_files, files.CHECKS, when=lambda facts: facts.files is not None),
)
"""Checks that may forbid a run."""

WAY_BACK: tuple[Check[NodeFacts], ...] = _reading(
    lambda facts: facts.way_back, ADMISSION, when=lambda facts: facts.files is not None
)
"""Checks of the old kubelet with the old files, where files are exchanged."""

PROOFS: tuple[Check[Proof], ...] = hashes.CHECKS
"""Checks that may forbid it once its hashes are planned; reported last."""

WARNINGS: tuple[Check[NodeFacts], ...] = (
    *runtime.WARNINGS,
    *kubelet.WARNINGS,
    *pods.WARNINGS,
    *_reading(lambda facts: facts.readiness, (*startup.WARNINGS, *host.WARNINGS)),
    *_reading(lambda facts: facts.drift, drift.WARNINGS),
    *_reading(lambda facts: facts.traffic, probes.WARNINGS),
    *_reading(lambda facts: facts.traffic, services.WARNINGS),
    *_reading(lambda facts: facts.admission, ADMISSION_WARNINGS),
    *condition.WARNINGS,
    kubelet.release_has_no_known_flaw,
    *_reading(lambda facts: facts.volumes, volumes.WARNINGS),
    *_reading(lambda facts: facts.surroundings, surroundings.WARNINGS),
)
"""Checks that only warn, before and after a run."""


def preflight(facts: NodeFacts) -> tuple[Finding, ...]:
    """Return the findings that forbid a run unless they are accepted, as far as the node's facts show."""
    found = ask((*CHECKS, *WAY_BACK), facts, facts.spec.preflight.accept)
    return tuple(dict.fromkeys(found))


def refusals(facts: NodeFacts, proven: Proof) -> tuple[Finding, ...]:
    """Return the findings of all checks that may forbid a run; if none does, the run is permitted."""
    return (*preflight(facts), *ask(PROOFS, proven, facts.spec.preflight.accept))


def warnings(facts: NodeFacts) -> tuple[Finding, ...]:
    """Return the findings that only warn."""
    return ask(WARNINGS, facts)
