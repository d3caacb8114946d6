"""Is every stored hash understood? What is looked at here is found while the rewriting of hashes is planned.

Prove before you touch: what cannot be recomputed for the kubelet that runs is not rewritten for the one to come.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.api.run_settings import HashMode
from nodeupgrade.api.values import PodUid
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.hashes.rewriting import Rewriting
from nodeupgrade.kubelethash import KubeletVersion, changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the checks of this module look at.

    Attributes:
        unread: manifests of static pods that leave open what runs.
        unpinned: static pods whose UID would change and cannot be kept.
        agents: the pods of the agent that looks: they are there for the run only.
    """

    target: KubeletVersion
    hash_mode: HashMode
    rewriting: Rewriting
    unread: tuple[Finding, ...]
    unpinned: tuple[Finding, ...]
    agents: frozenset[PodUid]


@check(Reason.STORED_HASH_NOT_REPRODUCED)
def manifests_tell_what_runs(facts: Proof) -> Iterator[Finding]:
    """The manifest of every static pod can be read as the kubelet reads it."""
    yield from facts.unread


@check(
    Reason.STORED_HASH_NOT_REPRODUCED,
    Reason.UNKNOWN_CONTAINER,
    Reason.POD_IN_TRANSITION,
    follows=(changes.VERSIONED_STRUCT, changes.JSON_HASHED, changes.NAME_AND_IMAGE_HASHED, changes.SIDECARS_COMPARED),
)
def hashes_are_reproduced(facts: Proof) -> Iterator[Finding]:
    """Every stored hash that the running kubelet compares is recomputed from its pod, bit by bit."""
    yield from facts.rewriting.findings


@check(
    Reason.STATIC_POD_NOT_EDITABLE,
    Reason.POD_IN_TRANSITION,
    follows=(changes.HOST_AND_FILE_IN_STATIC_UID, changes.STATIC_UID_BY_FNV),
)
def static_pods_keep_their_uid(facts: Proof) -> Iterator[Finding]:
    """Every static pod has one manifest, which can be given the UID that the pod has."""
    yield from facts.unpinned


@check(Reason.HASHES_WOULD_CHANGE)
def hashes_stay(facts: Proof) -> Iterator[Finding]:
    """Nothing has to be rewritten where ``hash.mode: AssertUnchanged`` says so.

    The agent's own container is not what anybody wants to hear of first.
    """
    if facts.hash_mode is not HashMode.ASSERT_UNCHANGED:
        return
    changed = sorted((c for c in facts.rewriting.containers if c.changes), key=lambda c: c.pod.uid in facts.agents)
    if changed:
        others = f", like those of {counted(len(changed) - 1, 'other container')}" if len(changed) > 1 else ""
        detail = (
            f"its stored hash would have to be rewritten for kubelet {facts.target}{others} "
            f"({len(changed)} in all), which hash.mode: AssertUnchanged forbids"
        )
        subject = f"{changed[0].pod}/{changed[0].name}"
        yield Finding(reason=Reason.HASHES_WOULD_CHANGE, subject=subject, detail=detail)


CHECKS: tuple[Check[Proof], ...] = (
    manifests_tell_what_runs,
    hashes_are_reproduced,
    static_pods_keep_their_uid,
    hashes_stay,
)
