"""Which containers of a dockerd an inventory is made of."""

from collections.abc import Iterable
from typing import Any, cast

import pytest

from nodeupgrade.errors import StepFailed
from nodeupgrade.node.host.systemd.services import ServiceManager
from nodeupgrade.node.runtimes.docker.client import TYPE_LABEL, Document, EngineClient
from nodeupgrade.node.runtimes.docker.docker import DockerRuntime
from tests.builders.docker_node import Node

MADE = {"Created": "1970-01-01T00:00:01Z"}
STATE = {"Running": True, "Pid": 9, "ExitCode": 0, "StartedAt": "1970-01-01T00:00:02Z"}


def entry(name: str) -> Document:
    of_pod = {f"io.kubernetes.pod.{key}": key for key in ("name", "namespace", "uid")}
    labels = {TYPE_LABEL: "container", "io.kubernetes.container.name": "web", "io.kubernetes.sandbox.id": "s", **of_pod}
    return {"Id": name, "Names": [f"/{name}"], "Labels": labels, "State": "running"}


def test_containers_that_are_no_kubelets_break_no_listing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may run one from an image with the label; dockerd may not even be able to show its details."""
    kubelets = "k8s_web_name_namespace_uid_0"
    foreign = {**entry("happy_tesla"), "Labels": {TYPE_LABEL: "container"}}
    dead: Document = {**entry("dead"), "Names": [], "State": "dead"}

    def inspect(_client: EngineClient, ids: Iterable[str]) -> dict[str, Any]:
        if (wanted := list(ids)) != [kubelets]:
            raise StepFailed(f"RWLayer of one of {wanted} is unexpectedly nil")
        return {kubelets: {**MADE, "State": STATE}}

    listed = [foreign, entry("busy_curie"), dead, entry(kubelets)]
    monkeypatch.setattr(EngineClient, "containers", lambda _client: listed)
    monkeypatch.setattr(EngineClient, "inspect", inspect)
    node.process(9, "sh", 8)
    runtime = DockerRuntime(
        node.root / "run/docker.sock",
        processes=node.processes,
        files=node.files,
        services=cast("ServiceManager", None),
    )

    for full in (False, True):
        assert [c.id for c in runtime.inventory(full=full).containers] == [kubelets]
