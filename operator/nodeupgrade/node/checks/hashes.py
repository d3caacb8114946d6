"""Checks of the proof: is every stored hash reproduced? Their facts come from planning the rewriting of hashes.

A hash that cannot be reproduced for the running kubelet must never be rewritten for the new one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import HashMode, SocketMountPolicy
from nodeupgrade.api.values import PodUid
from nodeupgrade.api.wording import counted
from nodeupgrade.findings.check import Found, check
from nodeupgrade.findings.finding import Finding
from nodeupgrade.findings.hazards import Hazard
from nodeupgrade.kubelethash import changes
from nodeupgrade.node.checks.facts import NodeFacts
from nodeupgrade.node.plan.hash_rewriting import Rewriting
from nodeupgrade.node.plan.plan import PlannedContainer

COMPARED_WITHIN = timedelta(minutes=5)
"""A kubelet synchronises every pod at its start, and again within one and a half times ``syncFrequency``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The facts that the checks of this module judge."""

    node: NodeFacts
    rewriting: Rewriting
    unread: tuple[Finding, ...]  # findings about manifests of static pods that cannot be read as the kubelet reads them
    unpinned: tuple[Finding, ...]  # findings about static pods whose UID would change
    agents: frozenset[PodUid]  # the pods of this run's agent, which exist only for the run

    @property
    def socket_users(self) -> tuple[PlannedContainer, ...]:
        """Return those who may use the runtime's sockets, without the agent; none if the runtime is not restarted."""
        restarts = self.node.restarts_runtime
        return tuple(c for c in self.rewriting.containers if restarts and c.pod.uid not in self.agents)


@check(Reason.STORED_HASH_NOT_REPRODUCED, Hazard.HASH_NOT_REPRODUCED, acceptable=False)
def manifests_tell_what_runs(facts: Proof) -> Iterator[Found]:
    """The manifest of every static pod can be read as the kubelet reads it."""
    yield from facts.unread


@check(
    Reason.STORED_HASH_NOT_REPRODUCED,
    Reason.UNKNOWN_CONTAINER,
    Reason.POD_IN_TRANSITION,
    Hazard.HASH_NOT_REPRODUCED,
    Hazard.POD_IN_TRANSITION,
    changes.VERSIONED_STRUCT,
    changes.JSON_HASHED,
    changes.NAME_AND_IMAGE_HASHED,
    changes.SIDECARS_COMPARED,
    acceptable=False,
)
def hashes_are_reproduced(facts: Proof) -> Iterator[Found]:
    """Every stored hash that the running kubelet compares is reproduced from its pod."""
    yield from facts.rewriting.findings


@check(Reason.HASHES_NOT_YET_COMPARED, Hazard.HASH_NOT_REPRODUCED, acceptable=False)
def accepted_hashes_were_compared(facts: Proof) -> Iterator[Found]:
    """The running kubelet has compared the hashes that ``hash.alsoAccepted`` allows, and left their containers alone.

    A kubelet that does not accept them ends these containers as soon as it synchronises their pods. So that they run
    beside a kubelet which has synchronised every pod shows that it accepts them, also after a rollback.
    """
    current, since = facts.node.current, facts.node.kubelet.since
    ran = None if since is None else facts.node.now - datetime.fromtimestamp(since, UTC)
    own = None if current is None else current.series
    others = [c for c in facts.rewriting.containers if c.compared and c.written_by not in {own, None}]
    if others and (ran is None or ran < COMPARED_WITHIN):
        age = "an unknown time" if ran is None else f"{max(ran.total_seconds(), 0):.0f}s"
        more = f", like {counted(len(others) - 1, 'other container')}" if len(others) > 1 else ""
        detail = (
            f"it carries the hash of kubelet {others[0].written_by}{more}; the running kubelet was started {age} "
            f"ago; only after {COMPARED_WITHIN.total_seconds():.0f}s is it known whether it accepts such hashes"
        )
        yield others[0].label, detail


@check(
    Reason.STATIC_POD_NOT_EDITABLE,
    Reason.POD_IN_TRANSITION,
    Hazard.STATIC_POD_UID_CHANGES,
    changes.HOST_AND_FILE_IN_STATIC_UID,
    changes.STATIC_UID_BY_FNV,
    acceptable=False,
)
def static_pods_keep_their_uid(facts: Proof) -> Iterator[Found]:
    """Every static pod has exactly one manifest, to which its present UID can be added."""
    yield from facts.unpinned


@check(Reason.HASHES_WOULD_CHANGE, acceptable=False)
def hashes_stay(facts: Proof) -> Iterator[Found]:
    """No hash has to be rewritten where ``hash.mode: AssertUnchanged`` is set.

    The agent's own containers are reported last.
    """
    if facts.node.spec.hash_mode is not HashMode.ASSERT_UNCHANGED:
        return
    changed = sorted((c for c in facts.rewriting.containers if c.changes), key=lambda c: c.pod.uid in facts.agents)
    if changed:
        others = f", like those of {counted(len(changed) - 1, 'other container')}" if len(changed) > 1 else ""
        detail = (
            f"its stored hash would have to be rewritten for kubelet {facts.node.target}{others} "
            f"({len(changed)} in all), which hash.mode: AssertUnchanged forbids"
        )
        yield changed[0].label, detail


@check(Reason.RUNTIME_SOCKET_MOUNTED, Hazard.RUNTIME_SOCKET_REPLACED)
def sockets_are_not_mounted(facts: Proof) -> Iterator[Found]:
    """No container has mounted a socket of the runtime as a file, or else it is named.

    ``verify.socketMounts: Refuse`` makes it a refusal. Who mounts the directory finds the new socket there.
    """
    policy = facts.node.spec.verify.socket_mounts
    severity = Severity.WARN if policy is SocketMountPolicy.WARN else None
    for container in facts.socket_users:
        if container.sockets:
            detail = (
                f"it has mounted {', '.join(container.sockets)} as a file, and cannot connect there once the runtime "
                "has been restarted, until the container is started again"
            )
            yield Finding(
                reason=Reason.RUNTIME_SOCKET_MOUNTED, subject=container.label, detail=detail, severity=severity
            )


@check(Reason.RUNTIME_CONNECTION_WOULD_BREAK, Hazard.RUNTIME_CONNECTION_BREAKS)
def nobody_hangs_on_the_runtime(facts: Proof) -> Iterator[Found]:
    """No container is connected to the runtime, which some survive and others do not, or else it is named."""
    users, unknown = facts.socket_users, facts.node.clients.unknown
    if unknown and users:
        detail = f"it is unknown which containers are connected to the runtime: {unknown}"
        yield Finding(reason=Reason.RUNTIME_CONNECTION_WOULD_BREAK, detail=detail, remedy="")
    for container in users:
        if container.connected:
            then = (
                "its kubelet starts it again"
                if container.may_end_with_runtime
                else "nothing starts it again, so the node is rolled back"
            )
            detail = (
                "it is connected to the runtime, whose restart breaks the connection; if it exits because of that, "
                f"{then}"
            )
            yield container.label, detail
