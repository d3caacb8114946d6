"""What is asked all the time while a cluster is upgraded: every API server, and every member of etcd."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from e2e.lab.binaries import programs
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab
from e2e.lab.nodes.node import Node
from e2e.lab.process import PATIENCE, run

EVERY = 0.2
"""Seconds between two questions to all API servers."""
_ANSWERS_WITHIN = 2
_TIMES = max(1, round(PATIENCE))
"""How often in a row an answer must be wrong to count: on a busy machine a server's own question to etcd times out."""
_ETCD = "/etc/kubernetes/pki/etcd"


@dataclass
class Asked:
    """What was answered to one question that was asked again and again."""

    answers: int = 0
    failures: list[str] = field(default_factory=list)

    def ask(self, question: Callable[[], str], times: int = _TIMES) -> None:
        """Ask, and at most so many times in all while something is wrong; an answer that is not empty says what."""
        for _ in range(times):
            try:
                wrong = question()
            except LabError as error:
                wrong = str(error)
            if not wrong:
                break
        self.failures += [wrong] if wrong else []
        self.answers += 1

    def __str__(self) -> str:
        """How often it was asked, and how often in vain."""
        return f"{self.answers}, {len(self.failures)} failed"


@dataclass
class Watch:
    """What was seen while a cluster was watched."""

    servers: Asked = field(default_factory=Asked)  # the answers of the API servers about their readiness
    etcd: Asked = field(default_factory=Asked)  # those of `etcdctl endpoint health` about all members
    together: tuple[str, ...] = ()  # the nodes that were in flight at the same time, of the moment when there were most


@contextmanager
def watching(lab: Lab, control: Sequence[Node], upgrade: str, *, etcd: bool = True) -> Iterator[Watch]:
    """Ask all the time, while the body runs: the control plane's nodes, and which nodes of a NodeUpgrade are in flight.

    Args:
        lab: the lab.
        control: the nodes with a control plane.
        upgrade: name of the NodeUpgrade; there may be none.
        etcd: whether etcd is asked, too.
    """
    watch = Watch()

    def servers() -> None:
        for node in control:
            watch.servers.ask(lambda node=node: "" if lab.api_of(node).ready(_ANSWERS_WITHIN) else "not ready")  # type: ignore[misc]

    def flights() -> None:
        for found in lab.api.list("nodeupgrades", fields=f"metadata.name={upgrade}", timeout=_ANSWERS_WITHIN):
            flying = tuple(slot["node"] for slot in found.get("status", {}).get("inFlight", ()))
            watch.together = max(watch.together, flying, key=len)

    def members() -> None:
        watch.etcd.ask(lambda: _complaint(lab.command(*_health(control))))

    with ExitStack() as stack:
        for question in (servers, flights, *((members,) if etcd else ())):
            stack.enter_context(_again_and_again(question))
        yield watch


def _health(control: Sequence[Node]) -> tuple[str, ...]:
    pki = control[0].disk / _ETCD.lstrip("/")
    endpoints = ",".join(f"https://{node.addresses.address}:2379" for node in control)
    identity = (f"--cacert={pki}/ca.crt", f"--cert={pki}/healthcheck-client.crt", f"--key={pki}/healthcheck-client.key")
    return str(programs.etcdctl()), f"--endpoints={endpoints}", *identity, "endpoint", "health"


def _complaint(command: Sequence[str]) -> str:
    answer = run(*command, check=False)
    return f"{answer.stdout}{answer.stderr}".strip() if answer.returncode else ""


@contextmanager
def _again_and_again(question: Callable[[], None]) -> Iterator[None]:
    done = threading.Event()

    def ask() -> None:
        while not done.wait(EVERY):
            try:
                question()
            except LabError:  # the questions that count keep their failures themselves
                continue

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
