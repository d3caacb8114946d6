"""The API server goes away during an upgrade, for everybody or for the new kubelet alone."""

import contextlib
import time
from collections.abc import Iterator

from e2e.faults.fault import BACK, UP, Fault
from e2e.faults.run import SETTLE, FaultRun, Harm
from e2e.lab import LabError, naming
from e2e.lab.binaries import components
from e2e.lab.nodes.nodefiles import KUBELET_KUBECONFIG
from e2e.lab.process import wait_until
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark

WAITS_SECONDS = 45.0
"""Longer than a Node stays Ready without its Lease, and than any settle period of these runs."""
DEADLINE: dict[str, object] = {"timeouts": {"node": "2m"}}
IMPATIENT: dict[str, object] = {"verify": {"settle": SETTLE, "nodeReadyTimeout": "15s"}}
SERVER, NOBODY = f"https://{naming.CONTROL_PLANE_ADDRESS}:{naming.API_PORT}", "https://127.0.0.1:1"


def api_away(seconds: float) -> Harm:
    """Stop kube-apiserver once the kubelet stops, for a while."""

    def harm(run: FaultRun) -> Iterator[None]:
        yield
        run.wait_record(Step.STOP_KUBELET, Mark.DOING)
        with _without_api_server(run):
            time.sleep(seconds)
        yield

    return harm


def api_away_while_waited_for(run: FaultRun) -> Iterator[None]:
    """Stop kube-apiserver before the kubelet stops; the run must wait for it with the shield up."""
    yield
    run.wait_record(Step.CONFIRM_BINARIES, Mark.DOING)
    with _without_api_server(run):
        run.wait_record(Step.AWAIT_NODE_STATUS, Mark.DOING)
        time.sleep(WAITS_SECONDS)
        last = run.journal().last
        if last is None or (last.step, last.mark) != (Step.AWAIT_NODE_STATUS, Mark.DOING):
            raise LabError(f"the run did not wait for the API server, but got to {last and last.step}")
    yield


def api_away_to_the_end(run: FaultRun) -> Iterator[None]:
    """Stop kube-apiserver before the kubelet stops, until the run has gone back at its deadline."""
    yield
    run.wait_record(Step.CONFIRM_BINARIES, Mark.DOING)
    with _without_api_server(run):
        run.wait_record(None, Mark.FINISHED)
    yield


def kubelet_cut_off(run: FaultRun) -> Iterator[None]:
    """Have the new kubelet start with a server in its kubeconfig that nobody is, and the old one with its own again."""
    node, moment = run.cluster.node, at(Step.START_KUBELET, When.ANNOUNCED)
    theirs = (node.root / KUBELET_KUBECONFIG.lstrip("/")).read_text()
    with run.armed(moment, "hang"):
        yield
        run.wait_hit(moment)
        node.write(KUBELET_KUBECONFIG, theirs.replace(SERVER, NOBODY), 0o600)
        try:
            run.release(moment)
            run.wait_record(Step.AWAIT_NODE_STATUS, Mark.FAILED)
        finally:
            node.write(KUBELET_KUBECONFIG, theirs, 0o600)
        yield
    found = str(run.cluster.task()["status"]["reason"])
    if found != Reason.KUBELET_NOT_SHOWN:
        raise LabError(f"the reason is {found}")


@contextlib.contextmanager
def _without_api_server(run: FaultRun) -> Iterator[None]:
    lab, began = run.cluster.lab, time.monotonic()
    version = lab.spec.control_plane
    binaries = {name: components.resolve(name, version) for name in components.CONTROL_PLANE}
    lab.control_plane.stop("kube-apiserver")
    try:
        yield
        run.notes.append(f"API server away for {time.monotonic() - began:.0f} s")
    finally:
        lab.control_plane.start_again("kube-apiserver", binaries)
        wait_until("the API server", lab.api.ready, timeout=120)


FAULTS: tuple[Fault, ...] = (
    Fault("api/30s", api_away(30), UP),
    Fault("api/waited-for", api_away_while_waited_for, UP),
    Fault("api/to-the-end", api_away_to_the_end, BACK, spec=DEADLINE),
    Fault("api/kubelet-cut-off", kubelet_cut_off, BACK, spec=IMPATIENT),
)
