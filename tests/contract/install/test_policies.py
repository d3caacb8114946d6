"""docs/policies.md on a real API server: what agents ask for, and what the cluster's own rules make of it."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from e2e import pages
from e2e.lab.binaries import programs
from e2e.lab.cluster.definitions import wait_until_established
from nodeupgrade.api.json import Json
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskArtifact
from nodeupgrade.api.values import NodeName
from nodeupgrade.cluster.agent_pods import AGENT_LABELS, PodRole
from nodeupgrade.fleet.agents.manifests import AgentPodSettings, agent_pod_name, pod_for
from nodeupgrade.sources.allowlist import Allowed
from tests.builders.tasks import task_spec
from tests.contract.install.having import have
from tests.contract.kube.apiserver import ApiServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

NAMESPACE = "nodeupgrade-system"
KYVERNO = "github.com/kyverno/kyverno@v1.13.2", "config/crds/kyverno/kyverno.io_policyexceptions.yaml"
GATEKEEPER = "github.com/open-policy-agent/gatekeeper/v3@v3.17.1", "config/crd/bases/config.gatekeeper.sh_configs.yaml"
PAGE = (pages.CHECKOUT / "docs/policies.md").read_text(encoding="utf-8")


def agent(role: PodRole = PodRole.AGENT) -> Json:
    """Return the manifest of an agent's pod, or of the one that takes its kubelet out of an image."""
    ref = f"registry.example/kubelet@sha256:{'a' * 64}"
    image = TaskArtifact(kind=ArtifactKind.IMAGE, ref=ref, path="/kubelet")
    spec = replace(task_spec("node-0"), artifact=image)
    task = Task(name=NodeName("node-0"), uid="u", resource_version="1", generation=1, spec=spec)
    allowed = Allowed(images=("registry.example",))
    settings = AgentPodSettings(namespace=NAMESPACE, image="nodeupgrade:dev", allowed=allowed)
    return pod_for(role, task, settings)


def objection(server: ApiServer, body: Json) -> str:
    """Return what the API server objects to in an object, empty if nothing; nothing is created."""
    return server.kubectl_as("", "create", "--dry-run=server", "--filename=-", stdin=json.dumps(body))


@pytest.mark.parametrize(
    ("file", "module", "path"), [("kyverno-exception.yaml", *KYVERNO), ("gatekeeper-config.yaml", *GATEKEEPER)]
)
def test_a_rule_is_valid_for_its_engine(api_server: ApiServer, file: str, module: str, path: str) -> None:
    crd = have(lambda: str(programs.module_file(module, path)))
    api_server.kubectl("apply", "--server-side", "--filename", crd)
    name = yaml.safe_load(Path(crd).read_text(encoding="utf-8"))["metadata"]["name"]
    wait_until_established(api_server.kubectl, name)
    rule = yaml.safe_load(pages.file(file))
    namespace = rule["metadata"]["namespace"]
    api_server.kubectl_as("", "create", "namespace", namespace)

    assert objection(api_server, rule) == ""
    assert "unknown field" in objection(api_server, {**rule, "spec": {**rule["spec"], "exeptions": []}})
    minor = re.search(r"@v(\d+\.\d+)\.", module)
    assert minor
    assert f" {minor[1]}" in PAGE, "the page names the version"


def test_the_exception_is_for_agents_and_the_cleanup_only() -> None:
    rule = yaml.safe_load(pages.file("kyverno-exception.yaml"))
    ((resources,),) = [[each["resources"]] for each in rule["spec"]["match"]["any"]]
    assert resources["namespaces"] == [NAMESPACE]
    prefixes = [name.rstrip("*") for name in resources["names"]]
    assert agent()["metadata"]["name"].startswith(prefixes[0])
    (cleanup,) = yaml.safe_load_all((pages.CHECKOUT / "components/cleanup/cleanup.yaml").read_text(encoding="utf-8"))
    assert agent_pod_name(NodeName("node-0"), PodRole.ARTIFACT).startswith(prefixes[1])
    assert cleanup["metadata"]["name"] == prefixes[2]
    assert not "nodeupgrade-operator".startswith(tuple(prefixes))


def test_what_the_page_says_of_agents_is_so() -> None:
    body = agent()
    spec, (container,) = body["spec"], body["spec"]["containers"]
    assert AGENT_LABELS["app.kubernetes.io/name"] in PAGE
    assert container["securityContext"] == {"privileged": True, "runAsUser": 0}
    assert spec["hostPID"]
    assert spec["hostNetwork"]
    assert {"name": "host", "hostPath": {"path": "/", "type": "Directory"}} in spec["volumes"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["nodeName"]
    of_artifact = agent(PodRole.ARTIFACT)["spec"]
    every = (*of_artifact["initContainers"], *of_artifact["containers"], container)
    assert {json.dumps(each["resources"], sort_keys=True) for each in every} == {
        '{"limits": {"memory": "1Gi"}, "requests": {"cpu": "0", "memory": "0"}}'
    }


Quota = Callable[..., None]


@pytest.fixture
def quota(api_server: ApiServer) -> Iterator[Quota]:
    """Sets a quota of the namespace, with the status that its controller would write."""

    def limit(**hard: str) -> None:
        amounts = {name.replace("_", "."): amount for name, amount in hard.items()}
        kind = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "ours", "namespace": NAMESPACE}}
        body, status = {**kind, "spec": {"hard": amounts}}, {"hard": amounts, "used": dict.fromkeys(amounts, "0")}
        assert api_server.kubectl_as("", "create", "--filename=-", stdin=json.dumps(body)) == ""
        patch = json.dumps({"status": status})
        ours = ("--namespace", NAMESPACE, "resourcequota/ours")
        api_server.kubectl("patch", *ours, "--subresource=status", "--type=merge", f"--patch={patch}")

    yield limit
    api_server.kubectl("delete", "resourcequota/ours", "--namespace", NAMESPACE)


def test_quotas_of_requests_and_memory_let_agents_in(api_server: ApiServer, quota: Quota) -> None:
    quota(requests_cpu="1", requests_memory="1Gi", limits_memory="1Gi", pods="1")
    assert objection(api_server, agent()) == ""
    bare = agent()
    del bare["spec"]["containers"][0]["resources"]
    assert "must specify" in objection(api_server, bare), "the control: the quota is in force"


def test_the_pod_of_an_artifact_meets_restricted(api_server: ApiServer, enforced: Callable[[str], None]) -> None:
    enforced("restricted")
    assert objection(api_server, agent(PodRole.ARTIFACT)) == ""
    assert "violates PodSecurity" in objection(api_server, agent()), "the control: the standard is in force"


def test_a_quota_of_processor_limits_refuses_agents(api_server: ApiServer, quota: Quota) -> None:
    quota(limits_cpu="8")
    assert "must specify limits.cpu" in objection(api_server, agent())


@pytest.fixture
def enforced(api_server: ApiServer) -> Iterator[Callable[[str], None]]:
    """Sets the pod security standard that the namespace enforces."""
    key = "pod-security.kubernetes.io/enforce"

    def label(standard: str) -> None:
        api_server.kubectl("label", "--overwrite", "namespace", NAMESPACE, f"{key}={standard}")

    yield label
    label("privileged")


def test_the_operator_meets_restricted_and_agents_need_privileged(
    api_server: ApiServer, enforced: Callable[[str], None]
) -> None:
    (deployment,) = yaml.safe_load_all((pages.CHECKOUT / "manifests/operator.yaml").read_text(encoding="utf-8"))
    metadata = {"name": "operator", "namespace": NAMESPACE}
    operator = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": deployment["spec"]["template"]["spec"]}
    enforced("restricted")
    assert objection(api_server, operator) == ""
    enforced("baseline")
    assert "violates PodSecurity" in objection(api_server, agent())
    enforced("privileged")
    assert objection(api_server, agent()) == ""
