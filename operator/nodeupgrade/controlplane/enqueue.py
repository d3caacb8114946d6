"""Which NodeUpgrades are due for a pass when something changed: turns events into names in the work queue."""

from nodeupgrade.controlplane.queue import WorkQueue

GATHERING_SECONDS = 0.2
"""How long events of the fleet are gathered before a pass: one pass serves all of them."""


class Enqueuer:
    """Knows which NodeUpgrades are active, since a Node may concern any of them.

    Nothing is lost when it errs: every unfinished NodeUpgrade is looked at now and then whatever it was told.
    """

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._active: set[str] = set()

    def upgrade_changed(self, name: str) -> None:
        """A NodeUpgrade itself changed, or may need work."""
        self._active.add(name)
        self._queue.add(name)

    def fleet_changed(self, name: str | None) -> None:
        """Nodes of a NodeUpgrade changed; None stands for Nodes that may belong to any."""
        for each in self._active if name is None else {name}:
            self._queue.add(each, GATHERING_SECONDS)

    def over(self, name: str) -> None:
        """Nothing is left to do for a NodeUpgrade until it changes."""
        self._active.discard(name)
