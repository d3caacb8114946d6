"""Checks of containers that use the runtime's sockets themselves, if the runtime is going to be restarted."""

from collections.abc import Iterator
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.run_settings import SocketMountPolicy
from nodeupgrade.domain.check import Check, check
from nodeupgrade.domain.hazards import Finding, Hazard
from nodeupgrade.domain.node.plan import PlannedContainer


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketUsers:
    """The facts that these checks judge.

    Attributes:
        containers: those of the node, without the agent's; none if the runtime is not going to be restarted.
        unknown: why it is not known which of them are connected; empty if it is.
        policy: what is to be done about those that have mounted a socket.
    """

    containers: tuple[PlannedContainer, ...] = ()
    unknown: str = ""
    policy: SocketMountPolicy = SocketMountPolicy.WARN


NOBODY = SocketUsers()


@check(Reason.RUNTIME_SOCKET_MOUNTED, covers=(Hazard.RUNTIME_SOCKET_REPLACED,))
def sockets_are_not_mounted(facts: SocketUsers) -> Iterator[Finding]:
    """No container has mounted a socket of the runtime as a file, or else it is named.

    ``verify.socketMounts: Refuse`` makes it a refusal. Who mounts the directory finds the new socket there.
    """
    severity = Severity.WARN if facts.policy is SocketMountPolicy.WARN else None
    for container in facts.containers:
        if container.sockets:
            detail = (
                f"it has mounted {', '.join(container.sockets)} as a file, and reaches nobody there once the runtime "
                "has been restarted, until the container is started again"
            )
            yield Finding(
                reason=Reason.RUNTIME_SOCKET_MOUNTED, subject=container.label, detail=detail, severity=severity
            )


@check(Reason.RUNTIME_CONNECTION_LOST, covers=(Hazard.RUNTIME_CONNECTION_BREAKS,))
def nobody_hangs_on_the_runtime(facts: SocketUsers) -> Iterator[Finding]:
    """No container is connected to the runtime, which some survive and others do not, or else it is named."""
    if facts.unknown and facts.containers:
        detail = f"which containers are connected to the runtime cannot be told: {facts.unknown}"
        yield Finding(reason=Reason.RUNTIME_CONNECTION_LOST, detail=detail, remedy="")
    for container in facts.containers:
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
            yield Finding(reason=Reason.RUNTIME_CONNECTION_LOST, subject=container.label, detail=detail)


CHECKS: tuple[Check[SocketUsers], ...] = (sockets_are_not_mounted, nobody_hangs_on_the_runtime)
