"""The host as an agent sees it: a simulated node, and its API server as the kubelet's credentials see it."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.errors import StepFailed
from nodeupgrade.kubelet.credential_program import CredentialProgramError, ProgramCredentials, environment, parse_output
from nodeupgrade.kubelet.kubeconfig import parse
from nodeupgrade.node.host.clock import Clock
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.host.packages.packages import Packages
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.node import Node
from nodeupgrade.node.running_kubelet.kubelet import AsKubelet, Kubelet
from nodeupgrade.node.runtimes.description import RuntimeKind
from tests.doubles.node import SimulatedNode


class Credentials(AsKubelet, Protocol):
    """The API server, and whether the kubelet's credentials are usable."""

    usable: bool
    output: bytes  # what a program prints that a kubeconfig names
    printed: list[ProgramCredentials]  # all that was used of it


@dataclass
class SimulatedHost:
    """Implements node.node.Host."""

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

    def as_kubelet(self, kubeconfig: PurePosixPath, pid: int) -> AsKubelet:
        if not self.control_plane.usable:
            raise StepFailed(f"cannot use the credentials in {kubeconfig}")
        try:
            self._print(kubeconfig, pid)
        except CredentialProgramError as error:
            raise StepFailed(f"cannot use the credentials in {kubeconfig}: {error}") from error
        return self.control_plane

    def _print(self, kubeconfig: PurePosixPath, pid: int) -> None:
        """Have the credentials printed, if the kubeconfig names a program; any other stands for a certificate."""
        try:
            program = parse(self.files.read(kubeconfig) or b"", kubeconfig.parent).program
        except CredentialProgramError:
            raise
        except ValueError:
            return
        if program is not None:
            environment(program, self.kubelet.environment(pid), None)
            self.control_plane.printed.append(parse_output(program, self.control_plane.output))
