"""A fault: what happens to a run, how the run may end, and how one run with it ended."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from e2e.cluster import Cluster, Object
from e2e.faults import oracle
from e2e.faults.run import FaultRun, Harm
from e2e.lab import LabError
from e2e.lab.runtimes import LabRuntime

EITHER = frozenset({"Succeeded", "RolledBack"})
UP, BACK, REFUSED = frozenset({"Succeeded"}), frozenset({"RolledBack"}), frozenset({"Refused"})


def is_containerd(runtime: LabRuntime) -> bool:
    """Report whether a node's runtime is containerd, for faults that happen with no other."""
    return runtime.name in {"containerd", "containerd-2"}


def is_crio(runtime: LabRuntime) -> bool:
    """Report whether a node's runtime is CRI-O, likewise."""
    return runtime.name == "crio"


@dataclass(frozen=True)
class Fault:
    """One fault."""

    name: str
    harm: Harm
    ends: frozenset[str] = EITHER  # phases of the task in which the run may end
    # the same with other runtimes than containerd, by the runtime's name, where that differs
    elsewhere: Mapping[str, frozenset[str]] = field(default_factory=dict)
    # what a node's runtime must be like for it to happen; by default, it happens with every runtime
    needs: Callable[[LabRuntime], bool] = lambda _runtime: True
    reboots: bool = False  # whether the node's containers cannot survive it
    spec: dict[str, object] = field(default_factory=dict)  # differences in the NodeUpgrade

    def ends_on(self, runtime: str) -> frozenset[str]:
        """Return the phases in which the run may end on a node with a runtime."""
        return self.elsewhere.get(runtime, self.ends)


@dataclass(frozen=True)
class Row:
    """The outcome of one run."""

    fault: str
    ended: str
    seconds: float
    down: str
    notes: str
    complaints: Sequence[str]  # what is not as it must be; empty if it went well
    attempts: int = 0  # runs that an executor began
    containers: int = 0  # that ran before, and ``sandboxes``
    sandboxes: int = 0
    disturbed: Sequence[str] = ()  # ``namespace/name`` of the pod of each instance that did not survive


def upgrade_under(
    cluster: Cluster,
    fault: Fault,
    known: dict[tuple[str, str], str],
    *,
    to: str | None = None,
    artifact: Object | None = None,
    all_change: bool = True,
    stays: frozenset[str] = frozenset(),
) -> Row:
    """Upgrade the cluster's node, inject a fault, and judge the outcome.

    Args:
        cluster: what has the node.
        fault: what happens to the run.
        known: all hashes seen so far, as ``FaultRun`` has them.
        to: the version of the kubelet; by default, the other one of the runtime's ``eras``.
        artifact: that kubelet, as a NodeUpgrade names it; by default, a file on the node.
        all_change: whether every container has another hash in that version.
        stays: what this run or an earlier one may leave behind, as the oracle calls it.
    """
    old, (first, second) = cluster.kubelet_version(), cluster.node.runtime.eras
    new = to or (second if old == first else first)
    run = FaultRun(cluster, _name(fault), old, new, known, all_change=all_change, stays=stays)
    harm = fault.harm(run)
    began = time.monotonic()
    ended, down, complaints, disturbed = "", "", list[str](), list[str]()
    try:
        next(harm)
        run.begin(artifact, **fault.spec)
        next(harm)
        ended = run.wait_end()
        found = oracle.judged(run, ended, fault.ends_on(cluster.node.runtime.name), reboots=fault.reboots)
        complaints, disturbed = found.complaints, found.disturbed
        status = cluster.task()["status"]
        down = str(status.get("kubelet", {}).get("downSeconds", ""))
        if ended != "Succeeded":
            run.notes.append(f"{status.get('reason')}: {status.get('message')}")
    except LabError as error:
        complaints = [*complaints, f"{error}; {run.status()}"]
    finally:
        complaints += _put_back(harm, run)
    seconds = time.monotonic() - began
    return Row(
        fault=fault.name,
        ended=ended or "?",
        seconds=round(seconds, 1),
        down=down,
        notes="; ".join(run.notes),
        complaints=complaints,
        attempts=run.attempts(),
        containers=len(run.before.running()),
        sandboxes=sum(sandbox.running for sandbox in run.before.sandboxes),
        disturbed=disturbed,
    )


def _put_back(harm: Iterator[None], run: FaultRun) -> list[str]:
    try:
        for _ in itertools.islice(harm, 2):
            pass
        run.cluster.lab.kubectl("delete", "nodeupgrade", run.name, "--ignore-not-found", "--wait=true", timeout=180)
    except LabError as error:
        return [f"afterwards: {error}"]
    return []


def _name(fault: Fault) -> str:
    return f"{fault.name.replace('/', '-')}-{int(time.time()) % 100000}"
