"""Commands print the same whether the official library sends their requests or kubectl does."""

import re
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from nodeupgrade.cli.main import main
from nodeupgrade.cluster.connect import LIBRARY
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.test_cli import rollout, written  # noqa: F401 - a fixture
from tests.doubles.kube_fleet import node_object
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

_VARYING = re.compile(r"\b(\d+(ms|s|m|h|d))+\b|\d{4}-\d\d-\d\dT?[ \d:.Z]+|error: cannot \w+ |resourceVersion.*")


def run(api_server: ApiServer, line: Sequence[str], *, user: str = "admin") -> tuple[int, str]:
    result = CliRunner().invoke(main, [*line, "--kubeconfig", str(api_server.kubeconfig(user))])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    # Columns are as wide as the ages in them.
    return result.exit_code, re.sub(" +", " ", _VARYING.sub("…", result.output))


def test_all_commands_print_the_same(
    api_server: ApiServer,
    rollout: str,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = f"node-{uuid.uuid4().hex[:8]}"
    api_server.kubectl("create", "-f", str(written(tmp_path, {**node_object(node, "v1.30.14")})))
    file = str(written(tmp_path, upgrade_object(f"{rollout}-too")))
    monkeypatch.setenv("PATH", f"{api_server.kubectl_binary.parent}:/usr/bin:/bin")
    looking = (
        ["explain", "--to", "1.31", "-o", "csv"],
        ["explain", "--to", "1.31", "--as", "jane"],
        ["check"],
        ["status"],
        ["status", rollout],
        ["status", "nope"],
        ["failures", rollout],
        ["report", rollout],
        ["explain-node", node],
        ["evidence", node],
        ["hashes", "--fleet"],
        ["plan", file],
        ["lint", file, "--against", "live"],
    )
    steering = (
        ["pause", rollout, "--dry-run"],
        ["approve", rollout, "rest", "--dry-run"],
        ["retry", rollout, "--dry-run"],
        ["abort", rollout, "--yes", "--dry-run"],
    )
    for line in (*looking, *steering):
        by_library = run(api_server, line)
        with monkeypatch.context() as without:
            without.setitem(sys.modules, LIBRARY, None)
            by_kubectl = run(api_server, line)
        assert by_kubectl == by_library, line
        assert ("jane" in by_library[1]) == ("jane" in line), "only who is impersonated is refused"
    with monkeypatch.context() as without:
        without.setitem(sys.modules, LIBRARY, None)
        assert run(api_server, ["pause", rollout])[0] == run(api_server, ["resume", rollout])[0] == 0
        assert "Done: " in run(api_server, ["pause", rollout])[1]
        code, told = run(api_server, ["status", rollout], user="nobody")
    assert (code, "ask a cluster administrator for this permission" in told) == (3, True), told
