"""A kubelet from a package, which the run is to hold: apt works meanwhile, or the executor is lost for good."""

from collections.abc import Iterator

from e2e import packages
from e2e.faults import along
from e2e.faults.fault import BACK, Fault
from e2e.faults.kinds.failpoints import bundle_lost_at
from e2e.faults.run import FaultRun
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.failpoints.failpoints import When, at
from nodeupgrade.node.journal.journal import Mark


def apt_works(run: FaultRun) -> Iterator[None]:
    """Lock the database of dpkg when the package is about to be held: the kubelet must not even be stopped."""
    name = at(Step.HOLD_PACKAGE, When.ANNOUNCED)
    with run.armed(name, "hang"):
        yield
        run.wait_hit(name)
        with packages.in_use(run.cluster.node):
            run.release(name)
            run.wait_record(Step.HOLD_PACKAGE, Mark.FAILED)
        yield


FAULTS: tuple[Fault, ...] = (
    Fault("package/apt-works", along.owning(apt_works), BACK),
    Fault("package/rescued", along.owning(bundle_lost_at(at(Step.SWAP_BINARY, When.DONE))), BACK),
)
