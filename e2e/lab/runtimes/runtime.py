"""What differs between the runtimes of the lab's nodes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from e2e.lab.binaries.versions import Version
from e2e.lab.oracle.snapshot import NodeSnapshot


class LabRuntime(Protocol):
    """One container runtime, as a node of the lab has it.

    Paths in a node are absolute paths as the node sees them; ``root`` is the node's root as the caller sees it.
    """

    @property
    def name(self) -> str:
        """Its name on the command line (``--runtime``)."""
        ...

    @property
    def unit(self) -> str:
        """The systemd unit of its daemon."""
        ...

    @property
    def daemon(self) -> str:
        """The first 15 bytes of its daemon's name."""
        ...

    @property
    def eras(self) -> tuple[str, str]:
        """Two kubelets that can use it and store other hashes: the older one, and the newer one."""
        ...

    @property
    def socket(self) -> str:
        """The socket of its daemon in a node."""
        ...

    @property
    def follow(self) -> str:
        """A command in a node that keeps a connection to its daemon, and fails when that is lost."""
        ...

    @property
    def serves_its_socket(self) -> bool:
        """Whether its daemon itself listens; otherwise systemd does, and passes the socket on."""
        ...

    @property
    def shares_monitors(self) -> bool:
        """Whether all containers of a pod run under the monitor (the shim) of its sandbox."""
        ...

    @property
    def packages(self) -> tuple[str, ...]:
        """Debian packages that a node needs for it; its units are enabled by them, or by ``complete``."""
        ...

    @property
    def version(self) -> str:
        """Version of the programs that ``complete`` adds; empty where packages provide everything."""
        ...

    @property
    def keeps_digests(self) -> bool:
        """Whether an imported image can be used by its digest (``name@sha256:…``)."""
        ...

    @property
    def config(self) -> str:
        """The file of its daemon's configuration in a node."""
        ...

    @property
    def prints_config(self) -> tuple[str, ...]:
        """A command in a node that fails if the configuration cannot be read; empty if there is none."""
        ...

    def with_root(self, config: str, root: str) -> str:
        """Return a configuration with another directory for containers and images."""
        ...

    def remove_image(self, root: Path, name: str) -> None:
        """Take the name of an image away, whose containers run on.

        Raises:
            LabError: it cannot be taken away.
        """
        ...

    @property
    def kubelet_settings(self) -> Mapping[str, object]:
        """Fields of the KubeletConfiguration that it needs."""
        ...

    def check(self, kubelet: Version) -> None:
        """Reject a kubelet that cannot use it.

        Raises:
            LabError: with a remedy.
        """
        ...

    def complete(self, root: Path) -> None:
        """Add to a new base root what no package provides.

        Raises:
            LabError: it cannot be had on this machine.
        """
        ...

    def files(self) -> Mapping[str, str]:
        """Return path → text of its configuration in a node."""
        ...

    def kubelet_flags(self, kubelet: Version) -> list[str]:
        """Return the kubelet's flags for it."""
        ...

    def import_command(self, archive: str) -> list[str]:
        """Return the command that imports an image archive, which is an OCI and a Docker archive at once."""
        ...

    def ready(self, root: Path) -> bool:
        """Report whether it can run containers."""
        ...

    def snapshot(self, node: str, root: Path) -> NodeSnapshot:
        """Record everything that it runs.

        Raises:
            LabError: it does not answer.
        """
        ...
