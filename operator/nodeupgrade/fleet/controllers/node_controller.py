"""The controller of nodes in flight: decides what comes next for one node, and writes it."""

from collections.abc import Callable
from dataclasses import dataclass

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.kube_api import NotFoundError, RejectedError, UnavailableError
from nodeupgrade.fleet.actions import FreeSlot, MarkTask, NodeAction, StartTask, Wait
from nodeupgrade.fleet.controllers.actuator import Actuator
from nodeupgrade.fleet.controllers.event_keys import NodeKey
from nodeupgrade.fleet.controllers.event_recorder import EventRecorder
from nodeupgrade.fleet.controllers.result import Result
from nodeupgrade.fleet.controllers.rollout_memory import RolloutMemory
from nodeupgrade.fleet.controllers.snapshots import Snapshots
from nodeupgrade.fleet.decide.flight import advance, needs_pods
from nodeupgrade.fleet.snapshot import FleetSnapshot


@dataclass(slots=True)
class NodeController:
    """Reconciles one node in flight at a time; may be stopped after any write and resumed by any other instance.

    It touches only nodes whose slot is on record. A node with nothing left to be done is handed to the controller of
    rollouts, which frees the slot; from then on, this one leaves the node alone.
    """

    snapshots: Snapshots
    recorder: EventRecorder
    # called with the name of a NodeUpgrade when one of its slots can be freed
    on_slot_unused: Callable[[str], None]

    async def reconcile(self, rollout: str, name: NodeName) -> Result:
        """Decide once what comes next for a node, and do it.

        Raises:
            NotLeadingError: Another leader has taken over.
            UnavailableError: Something cannot be read at the moment.
        """
        memory = self.snapshots.memory(rollout)
        try:
            fleet = await self.snapshots.of_node(rollout, name)
        except NotFoundError:
            return Result(over=True)
        if self.snapshots.term is not None and fleet.epoch != fleet.upgrade.status.leader:
            return Result(over=True)  # the controller of rollouts takes over first
        if needs_pods(fleet, name, self.snapshots.kube.utcnow()):
            fleet = await self.snapshots.with_pods(fleet, (name,))
        actions = advance(fleet, name, now := self.snapshots.kube.utcnow())
        if not actions:
            return Result(over=True)
        last = actions[-1]
        applied, complete = await self._carry_out(
            memory, fleet, actions[:-1] if isinstance(last, FreeSlot) else actions
        )
        if isinstance(last, Wait) or (isinstance(last, FreeSlot) and complete):
            memory.waiting[name] = last
        else:  # it is examined; what it waited for last remains until it waits again
            memory.waiting.setdefault(name, Wait(node=name, reason=Reason.PROGRESSING, message=last.message))
        if isinstance(last, FreeSlot) and complete:
            self.on_slot_unused(rollout)
            return Result(actions=actions[:-1], applied=applied, over=True)
        return Result(
            actions=actions,
            applied=applied,
            conflicted=not complete,
            upgrade=fleet.upgrade,
            in_flight=(name,),
        ).waiting_at(now)

    async def _carry_out(
        self, memory: RolloutMemory, fleet: FleetSnapshot, actions: tuple[NodeAction, ...]
    ) -> tuple[tuple[NodeAction, ...], bool]:
        """Carry out actions up to the first that fails; return those that succeeded, and whether all did."""
        actuator = Actuator(self.snapshots, fleet, memory, self.recorder)
        applied = list[NodeAction]()
        for action in actions:
            if isinstance(action, StartTask):
                memory.starts_unanswered.add(action.node)  # until it is known what became of it
            try:
                done = await actuator.carry_out(action)
            except (RejectedError, UnavailableError) as error:
                if isinstance(action, StartTask) and isinstance(error, RejectedError):
                    memory.starts_unanswered.discard(action.node)
                memory.failures = memory.failures.failed(action, str(error), self.snapshots.kube.utcnow())
                return tuple(applied), False
            if isinstance(action, StartTask) or (isinstance(action, MarkTask) and done is not None):
                memory.starts_unanswered.discard(action.node)
            if done is None:
                memory.recent = None  # it may be what the action relied on
                return tuple(applied), False
            applied.append(done)
        return tuple(applied), True

    async def crashed(self, key: NodeKey, problem: str) -> None:
        """Record that a node could not be reconciled because of an unexpected error."""
        undecided = Wait(node=key.node, reason=Reason.INTERNAL_ERROR, message=problem)
        memory = self.snapshots.memory(key.rollout)
        memory.failures = memory.failures.failed(undecided, problem, self.snapshots.kube.utcnow())
