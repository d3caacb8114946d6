"""What a contract test needs around a port: the port itself, and hands to change the world behind its back.

A double joins a suite by one line in the list of that suite's factories, in conftest.py.
"""

from contextlib import AbstractContextManager
from pathlib import PurePosixPath
from typing import Protocol

from nodeupgrade.api.values import AwakeTime, ContainerId
from nodeupgrade.node.host.files.files import Files
from nodeupgrade.node.host.packages.dpkg_database import Package
from nodeupgrade.node.host.packages.packages import Packages
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.runtimes.inventory import StoredHashes
from nodeupgrade.node.runtimes.runtime import ContainerRuntime
from nodeupgrade.node.shield.shield import Shield


class RuntimeWorld(Protocol):
    """A runtime, and what a kubelet, an administrator or a crash would do to it."""

    @property
    def runtime(self) -> ContainerRuntime:
        """The port."""
        ...

    @property
    def unit(self) -> UnitStatus:
        """Its unit, as it is."""
        ...

    def start_container(self, hashes: StoredHashes, *, texts: tuple[str, ...] = ()) -> ContainerId:
        """Start a pod with one container that stores these hashes, and texts wherever its author may have them."""
        ...

    def remove_container(self, container_id: ContainerId) -> None:
        """Remove it with its pod."""
        ...

    def change_more_than_the_hash(self, container_id: ContainerId) -> None:
        """Let somebody else write the stored metadata, hashes as they are."""
        ...

    def restart(self) -> None:
        """Restart the runtime and return without waiting for it to answer."""
        ...

    def restart_in_error(self) -> None:
        """Restart it while it cannot find out which containers run, if such a thing can be; the cause is gone then."""
        ...


class ShieldWorld(Protocol):
    """A shield whose process runs when the test begins, and a pod that it protects."""

    @property
    def shield(self) -> Shield:
        """The port."""
        ...

    def refuses(self) -> bool:
        """Let a kubelet start, which wants to stop the pod's container; report whether that was refused."""
        ...

    def crash(self) -> None:
        """Kill the process, which is not started again."""
        ...

    def start(self) -> None:
        """Start the process and wait until it is ready."""
        ...

    def restart_runtime(self) -> None:
        """Restart the runtime and wait until it answers, and until a process that runs has noticed."""
        ...


class ServicesWorld(Protocol):
    """A service manager with a service that may be stopped at will."""

    @property
    def services(self) -> ServiceManager:
        """The port."""
        ...

    @property
    def unit(self) -> str:
        """A unit that runs when the test begins."""
        ...

    def write_drop_in(self, text: str) -> str:
        """Put a drop-in of that text beside the unit, without systemd being told; return its path."""
        ...

    def awake(self) -> AwakeTime:
        """The present time by a clock of a node that was suspended for an hour."""
        ...

    def kill(self) -> None:
        """Kill the main process of the unit, and wait for an automatic restart if there is to be one."""
        ...


class PackagesWorld(Protocol):
    """A package manager with a package ``kubelet`` that is installed, and what others do to it."""

    @property
    def packages(self) -> Packages:
        """The port, which has no patience."""
        ...

    @property
    def package(self) -> Package:
        """The package."""
        ...

    def status(self) -> bytes:
        """Return what is on record about all packages."""
        ...

    def in_use(self) -> AbstractContextManager[None]:
        """Let somebody else work with the database."""
        ...

    def interrupt(self) -> None:
        """Let somebody else's work be cut off."""
        ...


class FilesWorld(Protocol):
    """Files below a directory that is the test's own."""

    @property
    def files(self) -> Files:
        """The port."""
        ...

    @property
    def directory(self) -> PurePosixPath:
        """An empty directory, as the port names it."""
        ...
