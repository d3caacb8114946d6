"""One node, seen through its ports."""

from dataclasses import dataclass

from nodeupgrade.ports.clock import Clock
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.kubelet import Kubelet
from nodeupgrade.ports.runtime import ContainerRuntime
from nodeupgrade.ports.services import ServiceManager

DEAD_MAN_TIMER = "nodeupgrade-dead-man.timer"
"""Starts the executor again whenever it is gone while a run is unfinished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything a step may use."""

    runtime: ContainerRuntime
    services: ServiceManager
    files: Files
    kubelet: Kubelet
    clock: Clock
