"""Puts the two controllers together: of rollouts, and of the nodes in flight."""

from collections.abc import Callable
from dataclasses import dataclass

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.fleet.controllers.event_recorder import EventRecorder
from nodeupgrade.fleet.controllers.node_controller import NodeController
from nodeupgrade.fleet.controllers.rollout_controller import RolloutController
from nodeupgrade.fleet.controllers.snapshots import Snapshots


@dataclass(frozen=True, slots=True, kw_only=True)
class Controllers:
    """Both controllers, and what they share. The caller runs ``recorder``."""

    snapshots: Snapshots
    recorder: EventRecorder
    rollouts: RolloutController
    nodes: NodeController

    def forget(self) -> None:
        """Forget everything that is kept in memory, at the end of a term."""
        self.snapshots.forget()
        self.recorder.forget()


def build_controllers(
    snapshots: Snapshots,
    *,
    on_slot_unused: Callable[[str], None] = lambda _name: None,
    on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None] = lambda _upgrade, _nodes: None,
) -> Controllers:
    """Build the controllers of one operator; see ``NodeController`` and ``RolloutController`` for what is called."""
    recorder = EventRecorder(snapshots.kube)
    return Controllers(
        snapshots=snapshots,
        recorder=recorder,
        rollouts=RolloutController(snapshots, recorder, on_slots),
        nodes=NodeController(snapshots, recorder, on_slot_unused),
    )
