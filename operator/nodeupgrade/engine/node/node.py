"""One node, seen through its ports."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.values import PodUid
from nodeupgrade.domain.node.plan import Newcomers
from nodeupgrade.domain.node.run import rescue_script
from nodeupgrade.domain.node.run.failpoints import Failpoint
from nodeupgrade.domain.node.run.journal import Step
from nodeupgrade.domain.node.run.rescue_script import Rescue
from nodeupgrade.domain.node.runtime import RuntimeKind
from nodeupgrade.ports.clock import Clock
from nodeupgrade.ports.files import Files, FilesView
from nodeupgrade.ports.kubelet import AsKubelet, Kubelet
from nodeupgrade.ports.runtime import ContainerRuntime, RuntimeView
from nodeupgrade.ports.services import ServiceManager, ServicesView

DEAD_MAN_TIMER = "nodeupgrade-dead-man.timer"
"""Starts the executor again whenever it is gone while a run is unfinished."""

LEASE_KEEPER = rescue_script.KEEPER
"""Renews the node's Lease while no kubelet does."""


def never() -> bool:
    """Nobody asks for anything."""
    return False


def none() -> frozenset[PodUid]:
    """Nobody has deleted a pod."""
    return frozenset()


def nobody_tells() -> Newcomers | None:
    """There is no agent that knows who came."""
    return None


def no_rescue() -> Rescue:
    """The executor always ran."""
    return Rescue.NONE


def nothing_recorded(_step: Step) -> Mapping[str, JsonValue] | None:
    """No step was announced."""
    return None


def inert(_name: Failpoint) -> None:
    """No test interrupts anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything a step may use.

    Attributes:
        abort: whether somebody asked to go back; asked before every decision and while a step waits for long.
        deleted_pods: pods that somebody has deleted since the run began, as the agent hears from the API server.
        newcomers: pods that came after the planning, as the agent sees them; ``None`` as long as it has not told.
        rescue: how far the rescue script has come with the run.
        go_on: whether somebody wants the old kubelet started on a runtime that lost pods.
        failpoint: called at every place where a test may interrupt the run.
        seconds: how long the step at hand may wait for something.
        recorded: what the journal keeps of an earlier step.
    """

    runtime: ContainerRuntime
    services: ServiceManager
    files: Files
    kubelet: Kubelet
    clock: Clock
    abort: Callable[[], bool] = never
    deleted_pods: Callable[[], frozenset[PodUid]] = none
    newcomers: Callable[[], Newcomers | None] = nobody_tells
    rescue: Callable[[], Rescue] = no_rescue
    go_on: Callable[[], bool] = never
    failpoint: Callable[[Failpoint], None] = inert
    seconds: float = inf
    recorded: Callable[[Step], Mapping[str, JsonValue] | None] = nothing_recorded


class ReadOnlyNode(Protocol):
    """As much of a node as looking at it takes: whoever holds no more than this cannot change anything."""

    @property
    def runtime(self) -> RuntimeView:
        """Its runtime."""
        ...

    @property
    def services(self) -> ServicesView:
        """Its service manager."""
        ...

    @property
    def files(self) -> FilesView:
        """Its files."""
        ...

    @property
    def kubelet(self) -> Kubelet:
        """Its kubelet."""
        ...

    @property
    def clock(self) -> Clock:
        """Its clock."""
        ...


class HostView(Protocol):
    """What can be seen of a node before it is known where its runtime listens."""

    @property
    def files(self) -> FilesView:
        """Its files."""
        ...

    @property
    def services(self) -> ServicesView:
        """Its service manager."""
        ...

    @property
    def kubelet(self) -> Kubelet:
        """Its kubelet."""
        ...

    def node(self, endpoint: str, runtime: str) -> ReadOnlyNode:
        """The same node with its runtime, of the kind of that name; ``endpoint`` is the path of the socket on the node.

        Raises:
            Refused: there is no such kind.
        """
        ...

    def as_kubelet(self, kubeconfig: PurePosixPath) -> AsKubelet:
        """The API server, with the credentials of the kubelet's kubeconfig as they are now.

        Raises:
            StepFailed: there are none in it that can be used.
        """
        ...


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

    @property
    def clock(self) -> Clock:
        """Its clock."""
        ...

    @property
    def runtimes(self) -> Iterable[RuntimeKind]:
        """Every kind of runtime that any run may have found here."""
        ...

    def node(self, endpoint: str, runtime: str) -> Node:
        """The same node with its runtime, of the kind of that name; ``endpoint`` is the path of the socket on the node.

        Raises:
            Refused: there is no such kind.
        """
        ...

    def as_kubelet(self, kubeconfig: PurePosixPath) -> AsKubelet:
        """The API server, with the credentials of the kubelet's kubeconfig as they are now.

        Raises:
            StepFailed: there are none in it that can be used.
        """
        ...
