"""Tests the completion of object names."""

import pytest
from click.shell_completion import ShellComplete

from nodeupgrade.cli.main import main
from nodeupgrade.cluster.kube_api import UnavailableError
from tests.golden.cli.cluster import WORLD, Cluster, of_contexts

NAMES = {
    "status kubelet-1-33": ["kubelet-1-33-13", "kubelet-1-33-13-gpu"],
    "pause kubelet-new": ["kubelet-new"],
    "explain-node web-d": ["web-d-1"],
    "evidence cache": ["cache-1", "cache-2"],
    "approve kubelet-1-33-13 rack": ["rack-a", "rack-b"],
    "approve none rack": [],
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


@pytest.mark.parametrize("command", ["status", "plan"])
def test_contexts_are_completed_from_the_kubeconfig(command: str) -> None:
    world = of_contexts({"prod-a": Cluster(), "prod-b": Cluster(), "test": Cluster()})
    script = ShellComplete(main, {"obj": world}, "nodeupgrade", "_NODEUPGRADE_COMPLETE")
    found = script.get_completions([command, "--context"], "prod")
    assert [item.value for item in found] == ["prod-a", "prod-b"]


@pytest.mark.parametrize("line", ["explain --to", "explain --from", "hash --kubelet-version"])
def test_versions_are_completed(line: str) -> None:
    script = ShellComplete(main, {}, "nodeupgrade", "_NODEUPGRADE_COMPLETE")
    assert [item.value for item in script.get_completions(line.split(), "1.7")] == ["1.7"]
    assert [item.value for item in script.get_completions(line.split(), "1.3")] == [
        "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36", "1.37",
    ]  # fmt: skip
