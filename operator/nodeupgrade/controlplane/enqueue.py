"""Turns events into names in the work queue: which NodeUpgrades to reconcile after a change."""

from nodeupgrade.controlplane.queue import WorkQueue

GATHERING_SECONDS = 0.2
"""How long to collect events about nodes before a pass, so that one pass serves all of them."""


class Enqueuer:
    """Keeps track of the active NodeUpgrades, since a change of a Node may affect any of them.

    Mistakes are harmless: the resync requeues every unfinished NodeUpgrade periodically.
    """

    def __init__(self, queue: WorkQueue) -> None:
        self._queue = queue
        self._active: set[str] = set()

    def upgrade_changed(self, name: str) -> None:
        """Requeue a NodeUpgrade that changed or may need work."""
        self._active.add(name)
        self._queue.add(name)

    def fleet_changed(self, name: str | None) -> None:
        """Requeue a NodeUpgrade whose nodes changed; None stands for all active ones."""
        for each in self._active if name is None else {name}:
            self._queue.add(each, GATHERING_SECONDS)

    def over(self, name: str) -> None:
        """Mark a NodeUpgrade as inactive: nothing is left to do until it changes."""
        self._active.discard(name)
