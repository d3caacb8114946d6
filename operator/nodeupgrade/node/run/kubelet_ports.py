"""The kubelet's ports during a run: no kubelet starts while another process has one that it cannot do without."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.kubelet.served_ports import ServedPort
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.running_kubelet.taken_ports import TakenPort, taken_ports
from nodeupgrade.node.verification.hidden_containers import Obstacle


def require_free(node: Node, plan: RunPlan, *, health: bool) -> None:
    """Require the ports of the new kubelet to be free, or the running kubelet's own.

    Args:
        health: whether its health endpoint's counts. Once no kubelet listens there, anybody may, and answer in its
            place: the run goes on, unless the kubelet itself has to answer.

    Raises:
        StepFailed: another process has one.
    """
    if taken := find_taken(node, plan, tuple(each for each in plan.ports if each.is_vital or health)):
        raise StepFailed(str(taken[0]), reason=Reason.KUBELET_PORT_TAKEN)


@contextmanager
def naming_who_has_one(node: Node, plan: RunPlan, served: tuple[ServedPort, ...]) -> Iterator[None]:
    """Say who has a port, where a kubelet does not start while another process has one.

    Raises:
        StepFailed: the kubelet did not start.
    """
    try:
        yield
    except StepFailed as error:
        if error.reason is not Reason.KUBELET_DID_NOT_START:  # one that does harm is to be stopped at once
            raise
        taken: tuple[TakenPort, ...] = ()
        with suppress(StepFailed, Transient):
            taken = find_taken(node, plan, served)
        if not taken:
            raise
        raise StepFailed(f"{taken[0]}; {error}", reason=Reason.KUBELET_PORT_TAKEN) from error


def find_obstacle(node: Node, plan: RunPlan) -> Obstacle | None:
    """Return why the old kubelet would exit at once; ``None`` if it would not for its ports."""
    vital = tuple(each for each in plan.old_ports if each.is_vital)
    taken = find_taken(node, plan, vital)
    return Obstacle(reason=Reason.KUBELET_PORT_TAKEN, why=str(taken[0])) if taken else None


def find_taken(node: Node, plan: RunPlan, served: tuple[ServedPort, ...]) -> tuple[TakenPort, ...]:
    """Return the ports that another process has; while no kubelet runs, that is a single question to the kernel."""

    def kubelet() -> int:
        return node.services.status(plan.swap.unit).main_pid

    listeners = node.kubelet.listeners([each.port for each in served], kubelet)
    return tuple(taken_ports(served, listeners, kubelet(), diverted=node.kubelet.diverted)) if listeners else ()
