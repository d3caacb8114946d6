"""The control: nodes without any hazard, and pods of every kind. A refusal would be a false alarm.

One pod has a resource that somebody wrote into the Node's status: it looks like a device, and is none.
"""

import contextlib
import time
from collections.abc import Iterator

from e2e.cluster import Cluster
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.progress import Lines
from e2e.looks import look
from e2e.preflight.kinds.admission import with_resource
from e2e.preflight.row import Outcome

CONTROL_PLANE = "1.33.13"
PODS = 40
PAIRS = (
    ("1.30.14", "1.33.13"),
    ("1.33.13", "1.30.14"),
    ("1.20.15", "1.30.14"),
    ("1.20.15", "1.33.13"),
    ("1.17.17", "1.20.15"),
    ("1.15.0", "1.17.17"),
)


def control(name: str, pair: tuple[str, str], pods: int = PODS) -> Outcome:
    """Look at a fresh node, and complain about everything that forbids the upgrade."""
    old, new = pair
    began = time.monotonic()
    said, ended, complaints = "", "?", []
    try:
        with fresh(name, old, pods) as cluster, with_resource(cluster):
            began = time.monotonic()
            seen = look(cluster, "control", new, allowDowngrade=True, skewPolicy="Warn")
            ended = seen.verdict
            said = "; ".join(f"{each.check}: {each.detail}" for each in seen.found) or "nothing"
            complaints = [f"{each.check}: {each.subject} {each.detail}" for each in seen.found if not each.warning]
            complaints += [] if ended == "Prechecked" else [f"ended as {ended}"]
    except LabError as error:
        complaints = [str(error)]
    seconds = round(time.monotonic() - began, 1)
    return Outcome(f"control/{old}-{new}", f"{pods} pods", "", ended, seconds, said, complaints)


@contextlib.contextmanager
def fresh(name: str, kubelet: str, pods: int) -> Iterator[Cluster]:
    """Create a lab of one node with the operator and pods, and remove it at the end."""
    lab = Lab.up(LabSpec(name=name, nodes=1, kubelet=kubelet, control_plane=CONTROL_PLANE), Lines())
    try:
        yield Cluster.with_operator(lab, pods=pods)
    finally:
        lab.down()
