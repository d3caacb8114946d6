"""Which actions for a node may follow at once on the one before, without a pass in between.

Only what the last action has led to, and what reads nothing that a pass reads for all nodes, such as the parameters of
the readiness guard or the failures of agents before this one.
"""

from collections.abc import Iterable
from itertools import takewhile

from nodeupgrade.domain.rollout.actions import (
    Cordon,
    CreateAgent,
    DeleteAgent,
    Judge,
    NodeAction,
    Release,
    RestoreCordon,
    StartTask,
)

_STEPS: dict[type[NodeAction], tuple[type[NodeAction], ...]] = {
    Cordon: (StartTask,),
    StartTask: (CreateAgent,),
    Judge: (RestoreCordon, DeleteAgent, Release),
}


def following(done: NodeAction | None, planned: Iterable[NodeAction]) -> tuple[NodeAction, ...]:
    """Return those of a node's next actions that may be carried out at once.

    Args:
        done: The action that was carried out last; None if the node's pods have been read, for which it waited: then
            all may.
        planned: What is planned for the node now, in order. What comes after an action that may not, may not either.
    """
    if done is None:
        return tuple(planned)
    allowed = _STEPS.get(type(done), ())
    return tuple(takewhile(lambda action: isinstance(action, allowed), planned))


def leads_on(done: NodeAction) -> bool:
    """Report whether anything may follow at once."""
    return type(done) in _STEPS
