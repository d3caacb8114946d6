"""Whoever has the roles that README names, and nothing else, can do what README and the command line's page show."""

import json
import re
import shlex
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from e2e.pages import CHECKOUT, blocks
from nodeupgrade.cli.main import main
from tests.contract.kube.apiserver import ApiServer
from tests.contract.kube.test_who_may_what import ROLES
from tests.doubles.kube_fleet import node_object

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

README = CHECKOUT / "README.md"
READS = {"nodes": "list,get", "pods": "list,get", "events": "list,get"}
"""The role that README and docs/generated/cli.md want besides ``nodeupgrade-operate``."""
FORBIDDEN = re.compile(r"\b403\b|forbidden|may not")  # the names of nodes are random, and may have 403 in them


@pytest.fixture
def person(api_server: ApiServer) -> Iterator[str]:
    """A user with these roles. No controller aggregates roles here, so it is bound to what is aggregated."""
    said = " ".join(README.read_text("utf-8").split())
    assert "Grant the role `nodeupgrade-operate`" in said
    assert "[one](docs/generated/cli.md#permissions) that reads nodes, pods and events" in said
    name = "nobody"
    reader = f"reader-{uuid.uuid4().hex[:8]}"
    resources = [f"--resource={each}" for each in READS]
    api_server.kubectl("create", "clusterrole", reader, "--verb=get,list", *resources)
    chosen = ROLES["nodeupgrade-operate"]["aggregationRule"]["clusterRoleSelectors"][0]["matchLabels"].items()
    roles = [reader, *(each for each, role in ROLES.items() if chosen <= role["metadata"]["labels"].items())]
    for role in roles:
        api_server.kubectl(
            "create", "clusterrolebinding", f"{reader}-{role}", f"--clusterrole={role}", f"--user={name}"
        )
    yield name
    for role in roles:
        api_server.kubectl("delete", "clusterrolebinding", f"{reader}-{role}")
    api_server.kubectl("delete", "clusterrole", reader)


def test_every_command_of_readme_and_every_command_of_ours(
    api_server: ApiServer, person: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = (block.text for block in blocks("README.md") if block.said == "first-node.yaml")
    (commands,) = (block.text for block in blocks("README.md") if block.said == "first-node")
    name, node = f"first-{uuid.uuid4().hex[:8]}", f"node-{uuid.uuid4().hex[:8]}"
    body = yaml.safe_load(example)
    body["metadata"]["name"], body["spec"]["nodes"]["names"] = name, [node]
    monkeypatch.chdir(tmp_path)
    Path("first-node.yaml").write_text(json.dumps(body))
    Path("node.json").write_text(json.dumps(node_object(node, "v1.30.14")))
    api_server.kubectl("create", "-f", "node.json")
    lines = [line.removeprefix("$ ").replace(" first-node", f" {name}") for line in commands.splitlines()]
    lines = [line.replace(f" {name}.yaml", " first-node.yaml") for line in lines]
    assert [line.split()[:2] for line in lines] == [
        ["kubectl", "apply"],
        ["kubectl", "nodeupgrade"],
        ["kubectl", "get"],
    ]
    lines += [
        "nodeupgrade explain --to 1.34",
        "nodeupgrade lint first-node.yaml --against live",
        "nodeupgrade plan first-node.yaml",
        "nodeupgrade check",
        *(f"nodeupgrade {each} {node}" for each in ("explain-node", "evidence", "hashes")),
        *(f"nodeupgrade {each} {name}" for each in ("status", "failures", "report", "pause", "resume", "retry")),
        f"nodeupgrade approve {name} remainder",
        f"nodeupgrade abort {name} --yes",
    ]

    told = {line: _told(api_server, person, line) for line in lines}

    assert {line: text for line, text in told.items() if FORBIDDEN.search(text)} == {}
    assert name in told[lines[0]]
    assert node in told["kubectl get nodes"]


def _told(api_server: ApiServer, person: str, line: str) -> str:
    arguments = shlex.split(line.replace("kubectl nodeupgrade", "nodeupgrade"))
    if arguments[0] == "kubectl":
        return api_server.kubectl(*arguments[1:], f"--kubeconfig={api_server.kubeconfig(person)}")
    waiting = ["--timeout", "1s"] if "--watch" in arguments else []  # nothing carries it out here
    result = CliRunner().invoke(main, [*arguments[1:], *waiting, "--kubeconfig", str(api_server.kubeconfig(person))])
    assert result.exit_code in ({4} if waiting else {0, 1}), (line, result.output)
    return str(result.output)
