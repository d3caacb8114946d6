"""The mutating commands on a real API server, and what a person without permissions is told."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nodeupgrade.cli.main import main
from tests.contract.kube.apiserver import ApiServer
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
    assert (dry.exit_code, "The API server agrees" in dry.output) == (0, True)
    assert "annotations" not in read(api_server, rollout)["metadata"]
    assert run(api_server, "pause", rollout, "--wait").exit_code == 0
    assert read(api_server, rollout)["metadata"]["annotations"] == {"nodeupgrade.dev/pause": "true"}
    assert "already" in run(api_server, "pause", rollout).output
    assert run(api_server, "resume", rollout).exit_code == 0
    assert not read(api_server, rollout)["metadata"].get("annotations")


def test_approve_is_recorded_as_ours(api_server: ApiServer, rollout: str) -> None:
    assert run(api_server, "approve", rollout, "rest").exit_code == 0
    metadata = read(api_server, rollout)["metadata"]
    assert metadata["annotations"] == {"nodeupgrade.dev/approve": "rest"}
    assert "kubectl-nodeupgrade" in {entry["manager"] for entry in metadata["managedFields"]}
    assert "approved already, by kubectl-nodeupgrade" in run(api_server, "approve", rollout, "rest").output
    wrong = run(api_server, "approve", rollout, "rests")
    assert (wrong.exit_code, "has only: canary, rest, remainder" in wrong.output) == (1, True)


def test_retry_of_a_failure(api_server: ApiServer, rollout: str) -> None:
    assert "Nothing to do" in run(api_server, "retry", rollout).output
    failed = json.dumps({"status": {"counts": {"failed": 1}}})
    api_server.kubectl("patch", "nodeupgrade", rollout, "--subresource=status", "--type=merge", f"--patch={failed}")
    assert run(api_server, "retry", rollout).exit_code == 0
    assert read(api_server, rollout)["metadata"]["annotations"]["nodeupgrade.dev/retry"]
    assert "asked for a retry already" in run(api_server, "retry", rollout).output


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


def test_who_may_not_is_told_what_to_ask_for(api_server: ApiServer, rollout: str) -> None:
    told = run(api_server, "status", rollout, user="nobody")
    assert (told.exit_code, "docs/cli.md" in told.output) == (3, True)
