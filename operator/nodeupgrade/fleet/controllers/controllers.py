"""Puts the two controllers together: of rollouts, and of the nodes in flight; and the sweep."""

from collections.abc import Callable

from nodeupgrade.api.upgrade.object import Upgrade
from nodeupgrade.api.values import NodeName
from nodeupgrade.fleet.controllers.event_recorder import EventRecorder
from nodeupgrade.fleet.controllers.node_controller import NodeController
from nodeupgrade.fleet.controllers.rollout_controller import RolloutController
from nodeupgrade.fleet.controllers.snapshots import Snapshots
from nodeupgrade.fleet.controllers.sweep import Sweep


class Controllers:
    """Both controllers of one operator, the sweep, and what they share. The caller runs ``recorder``.

    See ``NodeController`` and ``RolloutController`` for what is called.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        *,
        on_slot_unused: Callable[[str], None] = lambda _name: None,
        on_slots: Callable[[Upgrade, tuple[NodeName, ...]], None] = lambda _upgrade, _nodes: None,
    ) -> None:
        self.snapshots, self.recorder = snapshots, EventRecorder(snapshots.kube)
        self.rollouts = RolloutController(snapshots, self.recorder, on_slots)
        self.nodes = NodeController(snapshots, self.recorder, on_slot_unused)
        self.sweep = Sweep(snapshots.kube, snapshots.source, snapshots.agents.namespace)

    def forget(self) -> None:
        """Forget everything that is kept in memory, at the end of a term."""
        self.snapshots.forget()
        self.recorder.forget()
