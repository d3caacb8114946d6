"""The ports through which a run, or an examination, accesses one node."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.task.status import OwnerChange
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime, ContainerId, PodUid
from nodeupgrade.cluster.owner_changes import Evidence
from nodeupgrade.node.failpoints.failpoints import Failpoint
from nodeupgrade.node.host.clock import Clock
from nodeupgrade.node.host.files.files import Files, FilesView
from nodeupgrade.node.host.packages.packages import Packages, PackagesView
from nodeupgrade.node.host.systemd.services import ServiceManager, ServicesView
from nodeupgrade.node.journal.run_store import Rescue
from nodeupgrade.node.plan.amendment import Arrivals, PlannedArrivals
from nodeupgrade.node.plan.plan import Newcomers, ShownKubelet
from nodeupgrade.node.rescue import script
from nodeupgrade.node.running_kubelet.kubelet import AsKubelet, Kubelet
from nodeupgrade.node.runtimes.description import RuntimeKind
from nodeupgrade.node.runtimes.runtime import ContainerRuntime, RuntimeView
from nodeupgrade.node.shield.shield import Shield

EXECUTOR = "nodeupgrade-executor.service"
"""Carries out runs."""
DEAD_MAN_TIMER = "nodeupgrade-dead-man.timer"
"""Starts the executor again if it is gone while a run is unfinished."""
LEASE_KEEPER = script.KEEPER
"""Renews the node's Lease while no kubelet does."""
KUBELET_ENVIRONMENT = script.KUBELET_ENVIRONMENT
SPARE_EXECUTOR = script.SPARE
"""Carries a run to its end from another copy of the bundle, where the executor cannot run."""
SHIELD = script.SHIELD
"""Stands between a kubelet that is not yet verified and the runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything a step may use."""

    runtime: ContainerRuntime
    services: ServiceManager
    files: Files
    kubelet: Kubelet
    clock: Clock
    shield: Shield  # stands between a kubelet and the runtime; only used if the plan has a ShieldPlan
    packages: Packages  # only used if the plan holds a package
    # whether a rollback was requested; called before every decision and during long waits
    abort: Callable[[], bool] = lambda: False
    # what owners changed since the run was planned, as the agent reports it
    owner_changes: Callable[[], Evidence] = Evidence
    # pods that were added after planning, as the agent reports them; None without a report
    newcomers: Callable[[], Newcomers | None] = lambda: None
    # asks the agent to plan what came after planning; returns its latest answer
    planned_arrivals: Callable[[Arrivals], PlannedArrivals | None] = lambda _asked: None
    # what the API server shows of the kubelet, as the agent reports it; None without a report
    shown_kubelet: Callable[[], ShownKubelet | None] = lambda: None
    rescue: Callable[[], Rescue] = lambda: Rescue.NONE  # how far the rescue script has come with the run
    # whether a person requested to start the old kubelet on a runtime that lost pods
    go_on: Callable[[], bool] = lambda: False
    end: Callable[[], bool] = lambda: (
        False
    )  # whether a person requested the end of a run whose rollback fails or is held
    # called at every place where a test may interrupt the run
    failpoint: Callable[[Failpoint], None] = lambda _name: None
    seconds: float = inf  # how long the current step may wait
    # the journal's payload of an earlier step
    recorded: Callable[[Step], Mapping[str, JsonValue] | None] = lambda _step: None
    # containers of which this process has seen that they ended by themselves
    fell: set[ContainerId] = field(default_factory=set)
    # of which it has seen that they were over, and not by a kubelet
    over: set[ContainerId] = field(default_factory=set)
    # which it has seen exit with code 0, and since when
    done: dict[ContainerId, AwakeTime] = field(default_factory=dict)
    # of which it has seen that they did so after they had been asked to stop
    stopped: set[ContainerId] = field(default_factory=set)
    # those, and pods, of which it has seen that they ended since their owners had changed them, and what; it may be
    # taken back since
    owners: dict[ContainerId | PodUid, OwnerChange] = field(default_factory=dict)


class ReadOnlyNode(Protocol):
    """Read-only access to a node and its runtime."""

    @property
    def runtime(self) -> RuntimeView: ...
    @property
    def services(self) -> ServicesView: ...
    @property
    def files(self) -> FilesView: ...
    @property
    def kubelet(self) -> Kubelet: ...
    @property
    def clock(self) -> Clock: ...


class HostView(Protocol):
    """Read-only access to a node before its runtime's socket is known."""

    @property
    def files(self) -> FilesView: ...
    @property
    def services(self) -> ServicesView: ...
    @property
    def kubelet(self) -> Kubelet: ...
    @property
    def packages(self) -> PackagesView: ...
    @property
    def clock(self) -> Clock: ...

    def node(self, endpoint: str, runtime: str) -> ReadOnlyNode:
        """Return the node with its runtime.

        Args:
            endpoint: path of the runtime's socket on the node.
            runtime: name of its RuntimeKind.

        Raises:
            Refused: this kind is not supported.
        """

    def as_kubelet(self, kubeconfig: PurePosixPath, pid: int) -> AsKubelet:
        """Return the API server, accessed with the current credentials of the kubelet's kubeconfig.

        A program that prints them runs with the environment of the kubelet, process ``pid``.

        Raises:
            StepFailed: the kubeconfig is missing or has no usable credentials.
            Transient: a program prints them, and the process is gone.
        """


class Host(HostView, Protocol):
    """Access to a node before its runtime's socket is known."""

    @property
    def files(self) -> Files: ...
    @property
    def services(self) -> ServiceManager: ...
    @property
    def packages(self) -> Packages: ...
    @property
    def runtimes(self) -> Iterable[RuntimeKind]: ...

    def node(self, endpoint: str, runtime: str) -> Node:
        """Return the node with its runtime, with write access."""
