"""The host as an agent sees it: a simulated node, and its API server as the kubelet's credentials see it."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.runtime import RuntimeKind
from nodeupgrade.engine.node.node import Node
from nodeupgrade.ports.clock import Clock
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.kubelet import AsKubelet, Kubelet
from nodeupgrade.ports.services import Packages, ServiceManager
from tests.doubles.node import SimulatedNode


class Credentials(AsKubelet, Protocol):
    """The API server, and whether the kubelet's credentials are usable."""

    usable: bool


@dataclass
class SimulatedHost:
    """Implements engine.node.Host."""

    simulated: SimulatedNode
    control_plane: Credentials

    @property
    def files(self) -> Files:
        return self.simulated.ports.files

    @property
    def services(self) -> ServiceManager:
        return self.simulated.services

    @property
    def kubelet(self) -> Kubelet:
        return self.simulated.kubelet

    @property
    def packages(self) -> Packages:
        return self.simulated.packages

    @property
    def clock(self) -> Clock:
        return self.simulated.ports.clock

    @property
    def runtimes(self) -> tuple[RuntimeKind, ...]:
        return (self.simulated.runtime.kind,)

    def node(self, endpoint: str, runtime: str) -> Node:
        assert (endpoint, runtime) == ("/run/containerd/containerd.sock", "containerd")
        return self.simulated.ports

    def as_kubelet(self, kubeconfig: PurePosixPath) -> AsKubelet:
        if not self.control_plane.usable:
            raise StepFailed(f"cannot use the credentials in {kubeconfig}")
        return self.control_plane
