"""An image registry in a lab, by the name that the pages use: with TLS, and with a password if one is wanted.

It runs in the lab's network namespace, so that nothing outside can reach it or is reached by it. Its images stay with
the lab.
"""

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from e2e.lab import naming
from e2e.lab.binaries import programs
from e2e.lab.cluster.pki import Authority
from e2e.lab.host import cgroups
from e2e.lab.nodes.node import Node
from e2e.lab.process import has_ended, run, spawn, start_time, wait_until

NAME = "registry.example.com"
USER, PASSWORD = "robot", "secret"
_PASSWORDS = f"{USER}:$2b$04$9LOfdC4ARlWNqot.Eas7detnkZM7H1ODrgv9KfYK.38.zdTFWi2gm\n"
_TRUSTED = "etc/ssl/certs/ca-certificates.crt"
_CONNECT = f"import socket; socket.create_connection(({naming.CONTROL_PLANE_ADDRESS!r}, 443), 5).close()"


class Place(Protocol):
    """Where a registry runs: a lab, or a network namespace with a lab's address and authority."""

    @property
    def name(self) -> str:
        """The lab's name."""
        ...

    @property
    def directory(self) -> Path:
        """The lab's directory."""
        ...

    def command(self, *argv: str) -> Sequence[str]:
        """Return the command line that runs `argv` there."""
        ...


@dataclass(frozen=True)
class Registry:
    """The registry of a lab."""

    lab: Place  # the lab

    @property
    def directory(self) -> Path:
        """Where its files are."""
        return self.lab.directory / "registry"

    @property
    def authority(self) -> Authority:
        """Who issued its certificate."""
        return Authority(self.lab.directory / "pki")

    @property
    def hosts(self) -> str:
        """The line of /etc/hosts that leads to it."""
        return f"{naming.CONTROL_PLANE_ADDRESS} {NAME}\n"

    def start(self, *, password: bool = False) -> None:
        """Start it, or start it again with what it has; it then asks for a password, or it does not."""
        self.directory.mkdir(exist_ok=True)
        self.stop()
        if not self._file("crt").exists():
            self.authority.issue("registry", f"/CN={NAME}", f"DNS:{NAME},IP:{naming.CONTROL_PLANE_ADDRESS}")
        (self.directory / "htpasswd").write_text(_PASSWORDS)
        (self.directory / "config.json").write_text(json.dumps(self._configuration(password=password)))
        doors = cgroups.create(f"{naming.lab_cgroup(self.lab.name)}/control-plane")
        serve = [programs.registry(), "serve", str(self.directory / "config.json")]
        pid = spawn([*cgroups.entering(doors), *self.lab.command(*serve)], self.directory / "log")
        (self.directory / "process.json").write_text(json.dumps([pid, start_time(pid) or 0]))
        wait_until("the registry", self._answers, timeout=30)

    def stop(self) -> None:
        """Stop it, if it runs; what it has stays."""
        file = self.directory / "process.json"
        pid, started = json.loads(file.read_text()) if file.exists() else (0, 0)
        if not pid or start_time(pid) != started:
            return
        os.kill(pid, signal.SIGTERM)
        wait_until("the end of the registry", lambda: has_ended(pid), timeout=20, interval=0.02)

    def introduce(self, node: Node) -> None:
        """Let a node know its name, and trust who issued its certificate; restarts the runtime."""
        known = node.disk / "etc/hosts"
        known.write_text(known.read_text() + self.hosts)
        trusted = node.disk / _TRUSTED
        trusted.write_text(trusted.read_text() + self.authority.certificate.read_text())
        node.exec("systemctl", "restart", node.runtime.unit)
        wait_until("the runtime", node.runtime_answers, timeout=60)

    def _configuration(self, *, password: bool) -> dict[str, object]:
        realm = {"auth": {"htpasswd": {"realm": NAME, "path": str(self.directory / "htpasswd")}}}
        return {
            "version": 0.1,
            "log": {"level": "error", "accesslog": {"disabled": True}},
            "storage": {"filesystem": {"rootdirectory": str(self.directory / "images")}},
            "http": {
                "addr": f"{naming.CONTROL_PLANE_ADDRESS}:443",
                "secret": "of one process only",
                "tls": {"certificate": str(self._file("crt")), "key": str(self._file("key"))},
            },
            **(realm if password else {}),
        }

    def _answers(self) -> bool:
        return run(*self.lab.command(sys.executable, "-c", _CONNECT), check=False).returncode == 0

    def _file(self, kind: str) -> Path:
        return self.authority.directory / f"registry.{kind}"
