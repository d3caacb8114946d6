"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler of a lab, as processes in its namespace."""

import json
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.lab import naming
from e2e.lab.cluster.pki import Authority
from e2e.lab.errors import LabError
from e2e.lab.host import cgroups, network
from e2e.lab.process import LITTLE_COLLECTING, has_ended, run, spawn, start_time, wait_until

SPARING = ("env", LITTLE_COLLECTING)
"""What comes before the command lines of control planes."""


def etcd_binary() -> str | None:
    """Return the path of etcd, or None if this machine has none."""
    given = os.environ.get("NODEUPGRADE_LAB_ETCD")
    return given if given and Path(given).is_file() else shutil.which("etcd")


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The control plane's processes."""

    lab: str  # name of the lab
    directory: Path  # directory of data, logs and PIDs
    authority: Authority  # the authority that issued its certificates

    def command(self, *argv: str) -> list[str]:
        """Return the command line that runs ``argv`` in the lab's network namespace."""
        door = network.namespace_file(naming.control_plane_namespace(self.lab))
        return ["nsenter", f"--net={door}", "--", *argv]

    def start(self, binaries: Mapping[str, Path]) -> None:
        """Start all four; the API server answers some seconds later."""
        etcd = etcd_binary()
        if etcd is None:
            raise LabError("cannot start the control plane because there is no etcd; run `apt-get install etcd-server`")
        starts = {}
        for name, words in self._commands(etcd, binaries).items():
            starts[name] = self._spawn(name, words)
        self._write_processes(starts)

    def stop(self, name: str) -> None:
        """Kill one of them."""
        pid, started = self._processes()[name]
        if start_time(pid) != started:
            return
        os.kill(pid, signal.SIGKILL)
        wait_until(f"the end of {name}", lambda: has_ended(pid), timeout=10, interval=0.02)

    def start_again(self, name: str, binaries: Mapping[str, Path]) -> None:
        """Start one that was stopped."""
        words = self._commands(etcd_binary() or "", binaries)[name]
        self._write_processes({**self._processes(), name: self._spawn(name, words)})

    def _commands(self, etcd: str, binaries: Mapping[str, Path]) -> dict[str, list[str]]:
        flags = {
            "kube-apiserver": self._apiserver(),
            "kube-controller-manager": self._controller_manager(),
            "kube-scheduler": self._scheduler(),
        }
        return {"etcd": [etcd, *self._etcd()]} | {name: [str(binaries[name]), *flags[name]] for name in flags}

    def _spawn(self, name: str, words: list[str]) -> list[int]:
        doors = cgroups.create(f"{naming.lab_cgroup(self.lab)}/control-plane")
        pid = spawn([*cgroups.entering(doors), *self.command(*SPARING, *words)], self.directory / f"{name}.log")
        return [pid, start_time(pid) or 0]

    def _processes(self) -> dict[str, list[int]]:
        """Return the recorded PID and start time by name."""
        file = self.directory / "processes.json"
        found: dict[str, list[int]] = json.loads(file.read_text()) if file.exists() else {}
        return found

    def _write_processes(self, starts: Mapping[str, list[int]]) -> None:
        (self.directory / "processes.json").write_text(json.dumps(starts))

    def alive(self) -> dict[str, bool]:
        """Report which of the processes that were started are running; those that kubeadm made are no processes."""
        return {name: start_time(pid) == started for name, (pid, started) in self._processes().items()}

    def log_tail(self, name: str, lines: int = 5) -> str:
        """Return the last lines of a process's log."""
        file = self.directory / f"{name}.log"
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.exists() else ""

    def _etcd(self) -> list[str]:
        etcd = etcd_binary()
        assert etcd is not None
        # This data need not survive a power cut, and the disk is shared with everything that is measured.
        probe = run(etcd, "--unsafe-no-fsync", "--version", check=False)
        return [
            f"--data-dir={self.directory / 'etcd'}",
            "--listen-client-urls=http://127.0.0.1:2379",
            "--advertise-client-urls=http://127.0.0.1:2379",
            "--listen-peer-urls=http://127.0.0.1:2380",
            *(["--unsafe-no-fsync"] if probe.returncode == 0 else []),
        ]

    def _apiserver(self) -> list[str]:
        pki = self.authority.directory
        return [
            "--etcd-servers=http://127.0.0.1:2379",
            "--bind-address=0.0.0.0",  # of a namespace that nothing outside can reach
            f"--advertise-address={naming.CONTROL_PLANE_ADDRESS}",
            f"--secure-port={naming.API_PORT}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={pki / 'service-account.key'}",
            f"--service-account-signing-key-file={pki / 'service-account.key'}",
            f"--service-cluster-ip-range={naming.SERVICE_RANGE}",
            "--allow-privileged=true",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
        ]

    def _controller_manager(self) -> list[str]:
        pki = self.authority.directory
        return [
            f"--kubeconfig={pki / 'controller-manager.kubeconfig'}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={pki / 'service-account.key'}",
            f"--root-ca-file={pki / 'ca.crt'}",
            f"--cluster-signing-cert-file={pki / 'ca.crt'}",
            f"--cluster-signing-key-file={pki / 'ca.key'}",
            f"--service-cluster-ip-range={naming.SERVICE_RANGE}",
        ]

    def _scheduler(self) -> list[str]:
        return [
            f"--kubeconfig={self.authority.directory / 'scheduler.kubeconfig'}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
        ]
