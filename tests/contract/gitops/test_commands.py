"""The commands by which the pages look at a rollout and steer it, as they are written, on a real API server."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from e2e import pages
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import NODES, UPGRADES
from tests.contract.gitops.examples import upgrades
from tests.contract.gitops.recorded import conditions, load
from tests.contract.kube.apiserver import ApiServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

ROLLOUT, NODE = "kubelet-1-33-13", "node-17"
"""Names that the pages use."""


@pytest.fixture
async def rollout(admin: KubeClient) -> AsyncIterator[None]:
    """A rollout that was planned, and runs, with a wave that can be approved; and a node."""
    spec = next(iter(upgrades("argocd").values()))["spec"]
    spec = {**spec, "waves": [{"name": "production", "size": "100%", "approval": "Manual"}]}
    kind = {"apiVersion": UPGRADES.api_version, "kind": UPGRADES.kind}
    await admin.create(UPGRADES, {**kind, "metadata": {"name": ROLLOUT}, "spec": spec})
    await admin.create(NODES, {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": {"name": NODE}})
    await reports(admin, "running")
    yield
    await admin.delete(NODES, NODE)


async def reports(admin: KubeClient, moment: str) -> None:
    """Let the rollout report what was recorded, and that it was planned."""
    seen = {"observedGeneration": (await admin.get(UPGRADES, ROLLOUT))["metadata"]["generation"]}
    told = {each["type"]: each | seen for recorded in ("plan-ready", moment) for each in conditions(load()[recorded])}
    status = {**load()[moment]["status"], **seen, "conditions": [*told.values()]}
    await admin.replace_status(UPGRADES, ROLLOUT, status)


@pytest.mark.usefixtures("rollout")
async def test_each_is_accepted(admin: KubeClient, api_server: ApiServer, tmp_path: Path) -> None:
    for name, target in (
        ("kubectl", api_server.kubectl_binary),
        ("kubectl-nodeupgrade", pages.CHECKOUT / ".venv/bin/kubectl-nodeupgrade"),
    ):
        (tmp_path / name).symlink_to(target)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(api_server.kubeconfig()),
    }

    def succeed(commands: list[str]) -> None:
        assert commands
        for command in commands:
            argv = ["bash", "-euc", command]
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)
            assert done.returncode == 0, (command, done.stdout, done.stderr)

    succeed(pages.commands("rollout"))
    await reports(admin, "succeeded")
    succeed(pages.commands("ended"))

    left = await admin.get(UPGRADES, ROLLOUT)
    assert left["metadata"]["annotations"] == {"nodeupgrade.dev/approve": "production"}, "paused, and resumed"
    assert left["spec"]["action"] == "Pause"
    node = json.loads(api_server.kubectl("get", "node", NODE, "--output=json"))["metadata"]["annotations"]
    assert node == {"nodeupgrade.dev/hold": "INC-7, until Monday", "nodeupgrade.dev/skip": "true"}
