"""What an agent in its pod has of the node whose root directory is mounted there."""

from pathlib import Path

from nodeupgrade.api.values import RunId
from nodeupgrade.node.journal.run_store import KUBELET, volatile
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import ShownKubelet
from nodeupgrade.node.wiring import runs_from_pod


def test_what_the_directory_of_a_run_cannot_take_is_in_the_run_directory_of_the_node(tmp_path: Path) -> None:
    """The executor reads it there; the one of the agent's own container nobody reads."""
    run = RunId("run-1")
    (tmp_path / "run").mkdir()
    (tmp_path / RUNS.relative_to("/") / run / KUBELET).mkdir(parents=True)  # so no file can take its place

    runs_from_pod(tmp_path).report_kubelet(run, shown := ShownKubelet(at=1.0, answered=True, version="v1.33.13"))

    assert (tmp_path / volatile(KUBELET, run).relative_to("/")).is_file()
    assert runs_from_pod(tmp_path).shown_kubelet(run) == shown
