"""All checks of a node, room by room, in the order in which people are told of what they find.

Nothing on the node is changed before every check is silent. A new check is named in the ``CHECKS`` of its room; a new
room is named here, with the facts that its checks look at. What the API server alone tells of a node is asked in
``rollout/select/admission.py``. docs/checks.md lists all of them.
"""

from collections.abc import Callable
from typing import TypeVar

from nodeupgrade.domain.check import Check, ask
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.checks import (
    admission,
    drift,
    kubelet,
    pods,
    probes,
    proof,
    runtime,
    services,
    startup,
    units,
)
from nodeupgrade.domain.node.checks.facts import NodeFacts
from nodeupgrade.domain.node.checks.proof import Proof

F = TypeVar("F")


def _of(
    read: Callable[[NodeFacts], F],
    checks: tuple[Check[F], ...],
    when: Callable[[NodeFacts], bool] = lambda _: True,
) -> tuple[Check[NodeFacts], ...]:
    return tuple(check.of(read, when) for check in checks)


CHECKS: tuple[Check[NodeFacts], ...] = (
    *kubelet.CHECKS,
    *runtime.CHECKS,
    *_of(lambda facts: facts.units, units.CHECKS),
    *pods.CHECKS,
    kubelet.there_is_space,
    *_of(lambda facts: facts.readiness, startup.CHECKS, when=runtime.is_as_expected),
    runtime.runtime_survives_a_restart,
    *_of(lambda facts: facts.probed, probes.CHECKS),
    *_of(lambda facts: facts.traffic, services.CHECKS),
    *_of(lambda facts: facts.drift, drift.CHECKS),
    *_of(lambda facts: facts.admission, admission.CHECKS),
    pods.placements_are_met,
    kubelet.health_can_be_asked,
)
"""What may forbid a run."""

PROOFS: tuple[Check[Proof], ...] = proof.CHECKS
"""What may forbid it once its hashes are planned; told after the rest."""

WARNINGS: tuple[Check[NodeFacts], ...] = (
    *_of(lambda facts: facts.drift, drift.WARNINGS),
    *_of(lambda facts: facts.probed, probes.WARNINGS),
    *_of(lambda facts: facts.traffic, services.WARNINGS),
)
"""What people should know of before and after a run, whatever forbids it."""


def preflight(facts: NodeFacts) -> tuple[Finding, ...]:
    """Everything that forbids a run as far as the node's facts tell."""
    return ask(CHECKS, facts)


def refusals(facts: NodeFacts, proven: Proof) -> tuple[Finding, ...]:
    """Everything that forbids a run; an empty answer permits it."""
    return (*preflight(facts), *ask(PROOFS, proven))


def warnings(facts: NodeFacts) -> tuple[Finding, ...]:
    """Everything that people should know of."""
    return ask(WARNINGS, facts)
