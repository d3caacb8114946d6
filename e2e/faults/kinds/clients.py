"""Pods that use the runtime's socket themselves, when the runtime is restarted."""

import socket
from collections.abc import Iterator
from pathlib import Path

from e2e import pods
from e2e.faults.fault import UP, Fault
from e2e.faults.run import FaultRun
from e2e.lab import LabError
from e2e.lab.process import wait_until

FOLLOWER, MOUNTER, BESIDE = "follower", "mounts-the-file", "mounts-the-directory"
SILENT = "silent"


def hangs_on_connection(run: FaultRun) -> Iterator[None]:
    """Run a container that follows the runtime's events, and ends when it loses the connection."""
    run.free.add(f"{pods.NAMESPACE}/{FOLLOWER}")
    run.cluster.lab.apply(
        pods.pod(run.cluster, FOLLOWER, pods.following(run.cluster.node.runtime.follow), volumes=[pods.of_host("/")])
    )
    pods.wait_ready(run.cluster, FOLLOWER)
    yield
    yield
    containers = run.cluster.task()["status"]["containers"]
    run.notes.append(f"ended: {', '.join(containers.get('endedList', ())) or 'none'}")
    if run.phase() == "Succeeded" and containers.get("endedList") != [f"{pods.NAMESPACE}/{FOLLOWER}/main"]:
        raise LabError(f"the follower is not named: {containers}")
    run.notes.append(str(run.status().get("message")))
    wait_until("the follower to run again", lambda: run.cluster.runs(FOLLOWER) or None, timeout=120)
    pods.delete(run.cluster, FOLLOWER)


def says_nothing(run: FaultRun) -> Iterator[None]:
    """Run a container that connects to the runtime's socket, and neither makes a call nor leaves.

    CRI-O would wait for it: the node is refused until the container has gone.
    """
    runtime = run.cluster.node.runtime
    command = (
        f"perl -e 'use IO::Socket::UNIX; my $s = IO::Socket::UNIX->new($ARGV[0]) or exit 3; sleep' {runtime.socket}"
    )
    run.free.add(f"{pods.NAMESPACE}/{SILENT}")
    run.cluster.lab.apply(pods.pod(run.cluster, SILENT, pods.following(command), volumes=[pods.of_host("/")]))
    pods.wait_ready(run.cluster, SILENT)
    yield
    if runtime.name == "crio":
        wait_until("a refusal", lambda: run.phase() == "Refused", timeout=180, interval=0.5)
        run.notes.append(str(run.status().get("message")))
        pods.delete(run.cluster, SILENT)
    yield
    if runtime.name != "crio":
        pods.delete(run.cluster, SILENT)
    elif "without having made a call" not in " ".join(run.notes):
        raise LabError(f"it was refused for something else: {run.notes}")


def socket_file_mounted(run: FaultRun) -> Iterator[None]:
    """Run a container that mounts the runtime's socket as a file, and one that mounts its directory."""
    path, lab = run.cluster.node.runtime.socket, run.cluster.lab
    directory = str(Path(path).parent)
    lab.apply(pods.pod(run.cluster, MOUNTER, pods.mounting("/s.sock"), volumes=[pods.of_host(path)]))
    lab.apply(pods.pod(run.cluster, BESIDE, pods.mounting("/run"), volumes=[pods.of_host(directory)]))
    places = {MOUNTER: "s.sock", BESIDE: f"run/{Path(path).name}"}
    for name in places:
        pods.wait_ready(run.cluster, name)
    before = {name: _answers(run, name, place) for name, place in places.items()}
    yield
    yield
    after = {name: _answers(run, name, place) for name, place in places.items()}
    run.notes.append(f"answered before: {before}, after: {after}; {run.status().get('message')}")
    pods.delete(run.cluster, *places)
    if before != dict.fromkeys(places, True) or after != {MOUNTER: False, BESIDE: True}:
        raise LabError(f"who has an answer is not as expected: {before}, {after}")
    if f"{pods.NAMESPACE}/{MOUNTER}" not in str(run.status().get("message")):
        raise LabError(f"the pod is not named: {run.status()}")


def _answers(run: FaultRun, pod: str, place: str) -> bool:
    """Report whether the socket at a path in a pod's container accepts a connection."""
    node = run.cluster.node
    [found] = [c for c in node.snapshot().running() if c.pod == f"{pods.NAMESPACE}/{pod}"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        try:
            connection.connect(f"{node.root}/proc/{found.pid}/root/{place}")
        except ConnectionRefusedError:
            return False
    return True


FAULTS: tuple[Fault, ...] = (
    Fault("runtime/hangs-on-connection", hangs_on_connection, UP),
    Fault("runtime/socket-file-mounted", socket_file_mounted, UP),
    Fault("runtime/silent-client", says_nothing, UP),
)
