"""The mutating commands on a real API server, and what a person without permissions is told."""

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from nodeupgrade.api.json import Json
from nodeupgrade.cli.main import main
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.conftest import ROOT
from tests.doubles.kube_fleet import node_object
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

WAVES = [{"name": "canary", "size": 1}, {"name": "rest", "size": "50%", "approval": "Manual"}]


@pytest.fixture
def rollout(api_server: ApiServer, tmp_path: Path) -> str:
    """The name of a NodeUpgrade in two waves."""
    name = f"cli-{uuid.uuid4().hex[:8]}"
    file = tmp_path / "upgrade.json"
    file.write_text(json.dumps(upgrade_object(name, waves=WAVES)))
    api_server.kubectl("create", "-f", str(file))
    return name


def run(api_server: ApiServer, *arguments: str, user: str = "admin") -> Result:
    """A command with the identity of one of the API server's users."""
    return CliRunner().invoke(main, [*arguments, "--kubeconfig", str(api_server.kubeconfig(user))])


def read(api_server: ApiServer, name: str) -> Any:
    return json.loads(api_server.kubectl("get", "nodeupgrade", name, "-o", "json", "--show-managed-fields"))


def test_pause_and_resume(api_server: ApiServer, rollout: str) -> None:
    dry = run(api_server, "pause", rollout, "--dry-run")
    assert (dry.exit_code, "The API server accepts it" in dry.output) == (0, True)
    assert "annotations" not in read(api_server, rollout)["metadata"]
    assert run(api_server, "pause", rollout, "--wait").exit_code == 0
    assert read(api_server, rollout)["metadata"]["annotations"] == {"nodeupgrade.dev/pause": "true"}
    assert "already" in run(api_server, "pause", rollout).output
    assert run(api_server, "resume", rollout).exit_code == 0
    assert not read(api_server, rollout)["metadata"].get("annotations")


def test_all_rollouts_that_have_not_ended_are_paused_and_resumed(api_server: ApiServer, rollout: str) -> None:
    for neither_or_both in ((), (rollout, "--all")):
        refused = run(api_server, "pause", *neither_or_both)
        assert (refused.exit_code, "name one rollout, or write --all" in refused.output) == (2, True)
    paused = run(api_server, "pause", "--all")
    assert (paused.exit_code, f"{rollout}: Done: " in paused.output) == (0, True)
    assert read(api_server, rollout)["metadata"]["annotations"] == {"nodeupgrade.dev/pause": "true"}
    assert run(api_server, "resume", "--all").exit_code == 0
    assert not read(api_server, rollout)["metadata"].get("annotations")


def test_explain_reads_the_nodes_and_pods(api_server: ApiServer) -> None:
    name = f"explained-{uuid.uuid4().hex[:8]}"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": str(uuid.uuid4())}}
    status = {"containerStatuses": [{"name": "web", "state": {"running": {}}}]}
    api_server.put(
        {
            f"/registry/minions/{name}": {**node, "status": {"nodeInfo": {"kubeletVersion": "v1.30.14"}}},
            f"/registry/pods/default/{name}": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "uid": str(uuid.uuid4())},
                "spec": {"nodeName": name, "containers": [{"name": "web", "image": "registry.example/web:1"}]},
                "status": status,
            },
        }
    )
    try:
        found = run(api_server, "explain", "--to", "1.31", "-o", "json")
        (step,) = json.loads(found.stdout)["steps"]
        assert {"node": name, "restarts": 1, "pods": 1} in step["nodes"]
        refused = run(api_server, "explain", "--to", "1.31", user="nobody")
        assert (refused.exit_code, "ask a cluster administrator for this permission" in refused.output) == (3, True)
    finally:
        api_server.kubectl("delete", "pod", name, "--grace-period=0", "--force")
        api_server.kubectl("delete", "node", name)


def test_approve_is_recorded_as_ours(api_server: ApiServer, rollout: str) -> None:
    assert run(api_server, "approve", rollout, "rest").exit_code == 0
    metadata = read(api_server, rollout)["metadata"]
    assert metadata["annotations"] == {"nodeupgrade.dev/approve": "rest"}
    assert "nodeupgrade-cli" in {entry["manager"] for entry in metadata["managedFields"]}
    assert "already approved, by nodeupgrade-cli" in run(api_server, "approve", rollout, "rest").output
    wrong = run(api_server, "approve", rollout, "rests")
    assert (wrong.exit_code, "has only: canary, rest, remainder" in wrong.output) == (1, True)


def test_retry_of_a_failure(api_server: ApiServer, rollout: str) -> None:
    assert "Nothing to do" in run(api_server, "retry", rollout).output
    failed = json.dumps({"status": {"counts": {"failed": 1}}})
    api_server.kubectl("patch", "nodeupgrade", rollout, "--subresource=status", "--type=merge", f"--patch={failed}")
    assert run(api_server, "retry", rollout).exit_code == 0
    assert read(api_server, rollout)["metadata"]["annotations"]["nodeupgrade.dev/retry"]
    assert "already has a retry requested" in run(api_server, "retry", rollout).output


def test_abort_is_final(api_server: ApiServer, rollout: str) -> None:
    assert run(api_server, "abort", rollout, "--dry-run").exit_code == 0
    assert read(api_server, rollout)["spec"].get("action", "Run") == "Run"
    assert run(api_server, "abort", rollout).exit_code == 2
    assert run(api_server, "abort", rollout, "--yes").exit_code == 0
    assert read(api_server, rollout)["spec"]["action"] == "Abort"
    assert run(api_server, "pause", rollout).exit_code == 1


def test_looking_finds_what_is_there(api_server: ApiServer, rollout: str) -> None:
    assert rollout in run(api_server, "status").output
    shown = run(api_server, "status", rollout, "-o", "json")
    assert json.loads(shown.output)["name"] == rollout
    missing = run(api_server, "status", f"{rollout}-x")
    assert (missing.exit_code, f"there are: {rollout}" in missing.output or "there are: cli-" in missing.output) == (
        1,
        True,
    )


@pytest.fixture
def granted(api_server: ApiServer, tmp_path: Path) -> Iterator[None]:
    """The roles of the documentation, given to nobody for a while."""
    page = (ROOT / "docs/generated/cli.md").read_text()
    roles = "".join(re.findall(r"```yaml\n(.*?kind: ClusterRole.*?)```", page, re.DOTALL))
    file = tmp_path / "roles.yaml"
    file.write_text(roles)
    names = [role["metadata"]["name"] for role in yaml.safe_load_all(roles)]
    api_server.kubectl("apply", "-f", str(file))
    for name in names:
        api_server.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", "--user=nobody")
    yield
    for name in names:
        api_server.kubectl("delete", "clusterrolebinding", name)


def test_documented_permissions_are_enough(api_server: ApiServer, rollout: str, granted: None, tmp_path: Path) -> None:
    node = f"node-{rollout}"
    api_server.kubectl("create", "-f", str(written(tmp_path, {**node_object(node, "v1.30.14")})))
    file = str(written(tmp_path, upgrade_object(f"{rollout}-too")))
    for command in (
        ["status"],
        ["status", rollout],
        ["failures", rollout],
        ["report", rollout],
        ["explain-node", node],
        ["evidence", node],
        ["plan", file],
        ["lint", file, "--against", "live"],
        ["pause", rollout],
        ["resume", rollout],
        ["approve", rollout, "rest"],
        ["retry", rollout],
        ["abort", rollout, "--yes"],
    ):
        done = run(api_server, *command, user="nobody")
        assert done.exit_code in {0, 1}, done.output
        assert "answers 403" not in done.output


def written(directory: Path, body: Json) -> Path:
    file = directory / f"{body['metadata']['name']}.json"
    file.write_text(json.dumps(body))
    return file


def test_who_may_not_is_told_what_to_ask_for(api_server: ApiServer, rollout: str) -> None:
    told = run(api_server, "status", rollout, user="nobody")
    asked = "forbidden" in told.output and "ask a cluster administrator for this permission" in told.output
    assert (told.exit_code, asked) == (3, True), told.output
