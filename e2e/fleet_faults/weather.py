"""What befalls one trial: which kinds of faults, how often, for how long. Everything follows from the seed."""

import random
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """A kind of fault; a trial has some of them."""

    DIES_BEFORE = "the operator dies before a write"
    DIES_AFTER = "the operator dies after a write"
    ANSWER_LOST = "the answer to a write is lost"
    PAUSED = "the operator is paused with a write in its hand, for longer than its Lease lasts"
    LATE_EVENTS = "events come late"
    LOST_EVENTS = "events are suppressed"
    TWICE_TOLD = "events come twice"
    WATCH_ENDS = "watches end, or their resourceVersion is too old"
    BUSY = "429 and 500"
    OUTAGE = "the API server is not reached for an hour"
    REFUSES = "a webhook or a quota refuses writes for one node"
    NODE_REPLACED = "a Node is deleted and made again under its name"
    NODE_UNREADY = "a node is not Ready for a while"
    TASK_DELETED = "a task is deleted"
    PAUSE = "somebody pauses the rollout and lets it go on"
    LEASE_DELETED = "somebody deletes the Lease"
    NAMESPACE_GONE = "the operator's namespace is deleted and made again"
    CRDS_GONE = "the CRDs are deleted, and installed and filled again"


@dataclass
class Weather:
    """The faults of one trial."""

    chance: random.Random
    faults: frozenset[Fault]
    stormy: bool = True  # whether faults happen; they stop in the end
    outage: bool = False  # whether the API server is not reached at the moment
    gone: frozenset[str] = frozenset()  # kinds that the API server does not serve at the moment
    refused: set[str] = field(default_factory=set)  # names of nodes for which writes are refused at the moment
    happened: dict[Fault, int] = field(default_factory=dict)  # how often each fault has happened

    def strikes(self, fault: Fault, probability: float) -> bool:
        """Decide whether a fault happens now, and count it."""
        if not self.stormy or fault not in self.faults or self.chance.random() >= probability:
            return False
        self.happened[fault] = self.happened.get(fault, 0) + 1
        return True
