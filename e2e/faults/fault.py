"""A fault: what happens to a run and how the run may end, and what became of one run to which it happened."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from e2e.cluster import Cluster
from e2e.faults import oracle
from e2e.faults.run import FaultRun
from e2e.lab import LabError

OLD, NEW = "1.30.14", "1.33.13"
EITHER = frozenset({"Succeeded", "RolledBack"})
UP, BACK, REFUSED = frozenset({"Succeeded"}), frozenset({"RolledBack"}), frozenset({"Refused"})

Harm = Callable[[FaultRun], Iterator[None]]
"""What it does before its first ``yield`` prepares, then the NodeUpgrade is applied; what follows does the harm; after
the second ``yield`` the run is over and was judged, and things are put back in order."""


@dataclass(frozen=True)
class Fault:
    """One thing that happens.

    Attributes:
        ends: phases of the task in which the run may end.
        reboots: whether the node's containers cannot survive it.
        spec: what is different in the NodeUpgrade.
    """

    name: str
    harm: Harm
    ends: frozenset[str] = EITHER
    reboots: bool = False
    spec: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """What became of one run.

    Attributes:
        complaints: what was not as it must be; none means that it went well.
    """

    fault: str
    ended: str
    seconds: float
    down: str
    notes: str
    complaints: Sequence[str]


def upgrade_under(cluster: Cluster, fault: Fault, known: dict[tuple[str, str], str]) -> Row:
    """Upgrade the cluster's node, let a fault happen to the run, and judge what came of it."""
    old = cluster.kubelet_version()
    run = FaultRun(cluster, _name(fault), old, NEW if old == OLD else OLD, known)
    harm = fault.harm(run)
    began = time.monotonic()
    ended, down, complaints = "", "", []
    try:
        next(harm)
        run.begin(**fault.spec)
        next(harm)
        ended = run.wait_end()
        complaints = oracle.complaints(run, ended, fault.ends, reboots=fault.reboots)
        status = cluster.task()["status"]
        down = str(status.get("kubelet", {}).get("downSeconds", ""))
        if ended != "Succeeded":
            run.notes.append(f"{status.get('reason')}: {status.get('message')}")
    except LabError as error:
        complaints = [*complaints, f"{error}; {run.status()}"]
    finally:
        complaints += _put_back(harm, run)
    seconds = time.monotonic() - began
    return Row(fault.name, ended or "?", round(seconds, 1), down, "; ".join(run.notes), complaints)


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
