"""Tests what is made of the CRI's lists and statuses."""

from pathlib import Path

from nodeupgrade.node.host.processes.processes import ProcessTable
from nodeupgrade.node.runtimes.cri._pb import runtime_pb2 as pb
from nodeupgrade.node.runtimes.cri.listing import Listing, Statuses, build_inventory
from nodeupgrade.node.runtimes.inventory import Inventory


def inventory(tmp_path: Path, *with_status: str, requested: tuple[str, ...] = ()) -> Inventory:
    """Return the inventory of two ended containers, of which these still had a status."""
    containers = tuple(
        pb.Container(id=name, pod_sandbox_id="s", state=pb.CONTAINER_EXITED) for name in ("first", "second")
    )
    statuses = {
        name: pb.ContainerStatusResponse(status=pb.ContainerStatus(id=name, exit_code=1)) for name in with_status
    }
    return build_inventory(
        Listing(containers=containers, sandboxes=(pb.PodSandbox(id="s"),), pids={}),
        Statuses(containers=statuses, requested=frozenset(requested)),
        ProcessTable(tmp_path),
        monitor=lambda *_: None,
        pod_monitor=lambda *_: None,
        host_network=lambda *_: False,
    )


def test_a_container_that_was_removed_since_it_was_listed_is_left_out(tmp_path: Path) -> None:
    """A kubelet removes the instance before the last as soon as that has ended; how it ended is not unknown then."""
    left = inventory(tmp_path, "second", requested=("first", "second"))
    assert [(c.id, c.exit_code) for c in left.containers] == [("second", 1)]


def test_one_whose_status_was_not_requested_is_there_without_it(tmp_path: Path) -> None:
    some = inventory(tmp_path, "second", requested=("second",))
    assert [(c.id, c.exit_code) for c in some.containers] == [("first", None), ("second", 1)]


def test_where_no_statuses_were_requested_all_are_there(tmp_path: Path) -> None:
    assert [(c.id, c.exit_code) for c in inventory(tmp_path).containers] == [("first", None), ("second", None)]
