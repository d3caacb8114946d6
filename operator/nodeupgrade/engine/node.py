"""One node, seen through its ports."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from nodeupgrade.domain.failpoints import Failpoint
from nodeupgrade.ports.clock import Clock
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.kubelet import Kubelet
from nodeupgrade.ports.runtime import ContainerRuntime
from nodeupgrade.ports.services import ServiceManager

DEAD_MAN_TIMER = "nodeupgrade-dead-man.timer"
"""Starts the executor again whenever it is gone while a run is unfinished."""


def never() -> bool:
    """Nobody asks for anything."""
    return False


def inert(_name: Failpoint) -> None:
    """No test interrupts anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything a step may use.

    Attributes:
        abort: whether somebody asked to go back; asked before every decision and while a step waits for long.
        failpoint: called at every place where a test may interrupt the run.
        seconds: how long the step at hand may wait for something.
    """

    runtime: ContainerRuntime
    services: ServiceManager
    files: Files
    kubelet: Kubelet
    clock: Clock
    abort: Callable[[], bool] = never
    failpoint: Callable[[Failpoint], None] = inert
    seconds: float = inf


class Host(Protocol):
    """What can be used of a node before it is known where its runtime listens."""

    @property
    def files(self) -> Files:
        """Its files."""
        ...

    @property
    def services(self) -> ServiceManager:
        """Its service manager."""
        ...

    @property
    def kubelet(self) -> Kubelet:
        """Its kubelet."""
        ...

    def node(self, endpoint: str) -> Node:
        """The same node with its runtime; ``endpoint`` is the path of the socket on the node."""
        ...
