"""What any user of a node does at the kubelet's ports as soon as no kubelet listens there."""

import subprocess
import sys
from collections.abc import Iterator

from e2e.faults.fault import BACK, UP, Fault
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.journal.journal import Mark

HEALTH_PORT, OTHER_PORT, SERVING_PORT = 10248, 10249, 10250
NOBODY = 65534
LISTENER = """
import os, socket, sys, time

port, answer, user = int(sys.argv[1]), sys.argv[2].encode(), int(sys.argv[3])
os.setgroups([]), os.setgid(user), os.setuid(user)
door = socket.socket()
door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        door.bind(("127.0.0.1", port))
        door.listen(128)
        break
    except OSError:
        time.sleep(0.001)
print("taken", flush=True)
held = []
while True:
    client, _ = door.accept()
    if not answer:
        held.append(client)
        continue
    with client:
        client.recv(4096)
        client.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + answer)
"""
"""Takes a port once nobody has it, and gives everybody the same answer, or none."""


def taken(answer: str) -> Harm:
    """Take the kubelet's health port while no kubelet listens there, until the run is over."""

    def harm(run: FaultRun) -> Iterator[None]:
        inside = ("nsenter", "-t", str(run.cluster.node.pid), "--net", "--")
        listens = (sys.executable, "-c", LISTENER, str(HEALTH_PORT), answer, str(NOBODY))
        listener = subprocess.Popen([*inside, *listens], stdout=subprocess.PIPE, text=True)
        try:
            yield
            run.wait_record(None, Mark.FINISHED)
            listener.kill()
            if "taken" not in listener.communicate()[0]:
                raise LabError("the port was never free: this proves nothing")
            run.cluster.node.wait_kubelet_healthy()
            yield
        finally:
            listener.kill()
            listener.wait()

    return harm


def serving_port(run: FaultRun) -> Iterator[None]:
    """Take the port that no kubelet starts without while none listens there, until the rollback waits for it."""
    inside = ("nsenter", "-t", str(run.cluster.node.pid), "--net", "--")
    listens = (sys.executable, "-c", LISTENER, str(SERVING_PORT), "ok", str(NOBODY))
    listener = subprocess.Popen([*inside, *listens], stdout=subprocess.PIPE, text=True)
    try:
        yield
        run.wait_record(Step.STOP_KUBELET, Mark.HELD)
        held = [each.error or "" for each in run.journal().records if each.mark is Mark.HELD]
        if f"port {SERVING_PORT} (port) is taken" not in held[0]:
            raise LabError(f"it waits for something else: {held}")
        listener.kill()
        run.wait_record(None, Mark.FINISHED)
        run.cluster.node.wait_kubelet_healthy()
        yield
    finally:
        listener.kill()
        listener.wait()


def health_led_elsewhere(run: FaultRun) -> Iterator[None]:
    """Lead who connects to the kubelet's health port to another one, as the hostPort of a pod does, until the end."""
    inside = ("nsenter", "-t", str(run.cluster.node.pid), "--net", "--")
    listens = (sys.executable, "-c", LISTENER, str(OTHER_PORT), "no", str(NOBODY))
    listener = subprocess.Popen([*inside, *listens], stdout=subprocess.PIPE, text=True)
    rule = ("OUTPUT", *["-p", "tcp", "-d", "127.0.0.1", "--dport"], str(HEALTH_PORT), "-j", "REDIRECT", "--to-ports")
    rules = [*inside, "iptables", "-w", "-t", "nat"]
    try:
        yield
        run.wait_record(Step.STOP_KUBELET, Mark.DONE)
        subprocess.run([*rules, "-I", *rule, str(OTHER_PORT)], check=True)
        try:
            run.wait_record(None, Mark.FINISHED)
        finally:
            subprocess.run([*rules, "-D", *rule, str(OTHER_PORT)], check=True)
        if "connections do not arrive at the kubelet" not in str(run.status()):
            raise LabError(f"it is not named: {run.status()}")
        run.cluster.node.wait_kubelet_healthy()
        yield
    finally:
        listener.kill()
        listener.wait()


FAULTS: tuple[Fault, ...] = (
    Fault("port/health-ok", taken("ok"), UP),
    Fault("port/health-silent", taken(""), BACK),
    Fault("port/health-elsewhere", health_led_elsewhere, BACK),
    Fault("port/serving", serving_port, BACK),
)
