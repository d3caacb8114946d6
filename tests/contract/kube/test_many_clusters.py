"""One screen and one brake over three real API servers, by the official library and by kubectl."""

import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from e2e.lab.cluster.definitions import OURS, wait_until_established
from nodeupgrade.api.json import Json
from nodeupgrade.cli.main import main
from nodeupgrade.cluster.connect import LIBRARY
from tests.contract.kube.apiserver import ApiServer, running
from tests.contract.kube.conftest import ROOT
from tests.scenario.rollout.harness import upgrade_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

ROLLOUT = "kubelet-1-33-13"
REQUEST_SECONDS = 10
"""Enough for an API server on a busy machine; the one that never answers costs as much twice."""


@pytest.fixture(scope="module")
def servers(api_server: ApiServer) -> Iterator[dict[str, ApiServer]]:
    """The suite's own API server, and two more with our CRDs alone."""
    crds = ROOT / "crds"
    with contextlib.ExitStack() as stack:
        more = [stack.enter_context(running()) for _ in range(2)]
        for each in more:
            each.kubectl("apply", "--server-side", "-k", str(crds))
            wait_until_established(each.kubectl, OURS[0])
        yield {"prod-fra": api_server, "prod-lon": more[0], "staging": more[1]}


@pytest.fixture
def kubeconfig(servers: dict[str, ApiServer], tmp_path: Path) -> Iterator[Path]:
    """Their contexts, and one of a server that accepts connections and never answers."""
    upgrade = tmp_path / "upgrade.json"
    upgrade.write_text(json.dumps(upgrade_object(ROLLOUT)))
    for each in servers.values():
        each.kubectl("delete", "nodeupgrade", ROLLOUT, "--ignore-not-found")
        each.kubectl("create", "-f", str(upgrade))
    user = {"name": "admin", "user": {"token": "admin-token"}}
    with socket.create_server(("127.0.0.1", 0)) as mute:
        ports = {name: each.port for name, each in servers.items()} | {"prod-ams": mute.getsockname()[1]}
        path = tmp_path / "kubeconfig"
        path.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "", "users": [user]} | _of(ports))
        )
        yield path


def _of(ports: dict[str, int]) -> Json:
    def cluster(port: int) -> Json:
        return {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}

    return {
        "clusters": [{"name": name, "cluster": cluster(port)} for name, port in ports.items()],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "admin"}} for name in ports],
    }


@pytest.mark.parametrize(
    "library", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["by the library", "by kubectl"]
)
def test_one_screen_and_one_brake(
    library: bool, servers: dict[str, ApiServer], kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not library:
        monkeypatch.setitem(sys.modules, LIBRARY, None)
        monkeypatch.setenv("PATH", f"{servers['staging'].kubectl_binary.parent}:/usr/bin:/bin")

    def run(*line: str) -> Result:
        common = f"--kubeconfig={kubeconfig}", f"--request-timeout={REQUEST_SECONDS}s"
        result = CliRunner().invoke(main, [*line, *common])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    def paused() -> set[str]:
        metadata = {
            name: json.loads(each.kubectl("get", "nodeupgrade", ROLLOUT, "-o", "json"))["metadata"]
            for name, each in servers.items()
        }
        return {name for name, each in metadata.items() if "nodeupgrade.dev/pause" in each.get("annotations", {})}

    assert run("pause", ROLLOUT, "--context", "*", "--context", "prod-par").exit_code == 2
    assert paused() == set()
    braked = run("pause", ROLLOUT, "--context", "prod-*", "--context", "staging")
    assert braked.exit_code == 3
    assert "no answer from 1 of 4 clusters: prod-ams" not in braked.stdout
    assert "error: no answer from 1 of 4 clusters: prod-ams" in braked.stderr
    assert paused() == set(servers)
    seen = json.loads(run("status", "--context", "prod-[fl]*", "--context", "staging", "-o", "json").stdout)
    # Other tests have rollouts on the suite's own API server.
    ours = {each["context"]: [it for it in each["rollouts"] if it["name"] == ROLLOUT] for each in seen}
    assert ours.keys() == servers.keys()
    assert all([it["pausedByAnnotation"] for it in found] == [True] for found in ours.values())
    lines = run("status", ROLLOUT, "--context", "prod-fra", "--context", "prod-lon", "--context", "staging")
    assert (lines.exit_code, len(lines.stdout.splitlines())) == (0, 4)
    assert run("resume", ROLLOUT, "--context", "prod-[fl]*", "--context", "staging").exit_code == 0
    assert paused() == set()
