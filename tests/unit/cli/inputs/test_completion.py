"""Tests the completion of object names."""

import pytest
from click.shell_completion import ShellComplete

from nodeupgrade.cli.main import main
from nodeupgrade.cluster.kube_api import UnavailableError
from tests.golden.cli.cluster import WORLD, Cluster

NAMES = {
    "status kubelet-1-33": ["kubelet-1-33-13", "kubelet-1-33-13-gpu"],
    "pause kubelet-new": ["kubelet-new"],
    "explain-node web-d": ["web-d-1"],
    "evidence cache": ["cache-1", "cache-2"],
}


@pytest.mark.parametrize("line", NAMES)
@pytest.mark.parametrize("answers", [True, False])
def test_names_are_completed_if_the_cluster_answers(line: str, answers: bool) -> None:
    cluster, words = Cluster(*WORLD), line.split()
    if not answers:
        cluster.failure = UnavailableError("nobody is there")
    script = ShellComplete(main, {"obj": cluster.world()}, "nodeupgrade", "_NODEUPGRADE_COMPLETE")
    found = [item.value for item in script.get_completions(words[:-1], words[-1])]
    assert found == (NAMES[line] if answers else [])
