"""How a machine is reached: commands, its file system and its runtime's socket, over one connection of ssh."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.host import network
from e2e.lab.process import run, wait_until

_KEY = "ssh-key"
_CLEAN = (
    "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=dumb",
)  # fmt: skip


def public_key(directory: Path) -> str:
    """Return the public key of a lab, creating the pair first if necessary.

    Args:
        directory: of the lab.
    """
    key = directory / _KEY
    if not key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", key)
    return key.with_suffix(".pub").read_text()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssh:
    """The way to one machine."""

    lab: Path  # the lab's directory, where its key is
    directory: Path  # where the sockets of the connection are
    namespace: str  # network namespace from which the machine is reached
    address: str  # the machine's

    @property
    def _words(self) -> list[str]:
        options = {
            "ControlPath": self.directory / "ssh",
            "IdentityFile": self.lab / _KEY,
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR",
            "ConnectTimeout": "5",
            "StreamLocalBindUnlink": "yes",
            "BatchMode": "yes",
        }
        inside = ["nsenter", f"--net={network.namespace_file(self.namespace)}", "ssh"]
        return [*inside, *(f"-o{name}={value}" for name, value in options.items())]

    @property
    def _target(self) -> str:
        return f"root@{self.address}"

    def command(self, *argv: str) -> list[str]:
        """Return the command line that runs ``argv`` in the machine."""
        return [*self._words, self._target, "--", shlex.join([*_CLEAN, *argv])]

    def master(self, socket: Path, target: str) -> list[str]:
        """Return the command line of the connection that the others share; it is made again until it is ended.

        Args:
            socket: where a socket of the machine is to be reached on the host.
            target: that socket in the machine.
        """
        once = shlex.join([*self._words, "-M", "-N", "-L", f"{socket}:{target}", self._target])
        # One that was killed has left its socket, and another does not share its connection as long as that is there.
        gone = shlex.join(["rm", "-f", str(self.directory / "ssh")])
        return ["sh", "-c", f"while :; do {gone}; {once}; sleep 0.5; done"]

    def is_open(self) -> bool:
        """Report whether the shared connection is there."""
        return run(*self._words, "-O", "check", self._target, check=False).returncode == 0

    def file_system(self, place: Path) -> list[str]:
        """Return the command line that mounts the machine's file system, of which nothing is cached."""
        fresh = "dir_cache=no,attr_timeout=0,entry_timeout=0,negative_timeout=0,ac_attr_timeout=0"
        through = f"ssh_command={' '.join(self._words)}"
        return ["sshfs", f"{self._target}:/", str(place), "-f", "-o", fresh, "-o", through]

    def wait_open(self, timeout: float) -> None:
        """Wait until the shared connection is there."""
        wait_until(f"a connection to {self.address}", self.is_open, timeout=timeout, interval=0.3)
