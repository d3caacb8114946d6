"""The floor of the time without a kubelet: bare restarts of the kubelet and of the runtime, on the same node."""

import json
from dataclasses import dataclass
from pathlib import PurePosixPath

from e2e.cluster import Cluster
from nodeupgrade import bundle

BUNDLES = PurePosixPath("/var/lib/nodeupgrade/bundles")

# Runs inside the node, in the bundle that the first upgrade left there, and with the executor's priority.
PROBE = """
import json, os, subprocess, sys, time
os.nice(-5)
from pathlib import Path
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.running_kubelet.host_kubelet import HostKubelet
from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.host.systemd.manager import SystemdManager
from nodeupgrade.node.runtimes.supported import runtime_named
name, socket, unit = sys.argv[1:]
processes, services = ProcessTable(Path("/proc")), SystemdManager()
kubelet = HostKubelet(processes)
runtime = runtime_named(name)(Path(socket), processes=processes, files=HostFiles(), services=services, prefix=())
runtime.inventory()
def timed(unit, ready):
    began = time.monotonic()
    subprocess.run(["systemctl", "restart", unit], check=True)
    ready()
    return time.monotonic() - began
def healthy():
    while not kubelet.healthy():
        time.sleep(0.005)
# The runtime first, and then a pause: a kubelet that has just started keeps it busy for seconds.
floor = {"runtime": timed(unit, lambda: runtime.wait_until_answering(60))}
time.sleep(10)
floor["kubelet"] = timed("kubelet", healthy)
print(json.dumps(floor))
"""
REPORTED = {"crio": "cri-o", "dockerd": "docker"}
"""The names by which runtimes report themselves, where those differ from the names of their daemons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """What the two restarts took, in seconds."""

    kubelet: float  # until it is healthy
    runtime: float  # until it answers


def measure(cluster: Cluster) -> Floor:
    """Restart the runtime, and a while later the kubelet, of a node that was upgraded before."""
    root = BUNDLES / cluster.node.exec("ls", str(BUNDLES)).stdout.split()[0]
    python = bundle.command(root, "this")[:-2]
    runtime = cluster.node.runtime
    named = REPORTED.get(runtime.daemon, runtime.daemon)
    told = cluster.node.exec(*python, "-c", PROBE, named, runtime.socket, runtime.unit, timeout=120)
    return Floor(**json.loads(told.stdout))
