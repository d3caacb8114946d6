"""The ten mistakes of a first hour, made on a real API server: every first screen tells the cause, and what to do.

What only a node can tell is written into the API as its kubelet or its agent writes it.
"""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath

import pytest

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.task.object import parse_task
from nodeupgrade.cluster.agent_pods import PodRole
from nodeupgrade.cluster.client.client import KubeClient
from nodeupgrade.cluster.kube_api import TASKS
from nodeupgrade.errors import Refused
from nodeupgrade.fleet.agents.manifests import AGENT_CONTAINER, ARTIFACT_CONTAINER, BUNDLE_CONTAINER, KEEPER_CONTAINER
from nodeupgrade.node.agent import task_reporter
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.node.agent.staging import stage
from nodeupgrade.node.agent.task_reporter import TaskRefusedError, TaskReporter
from nodeupgrade.node.artifacts.mounted import NodeArtifacts
from nodeupgrade.node.host.files.host_files import HostFiles
from nodeupgrade.node.task_status.task_status import refusal_status
from tests.contract.kube.apiserver import ApiServer, free_ports
from tests.contract.kube.conftest import ROOT
from tests.contract.kube.first_screens import AGENTS, SECONDS, FirstHour, check, first_hour, flowing
from tests.scenario.rollout.harness import NAMESPACE

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

DIGEST = "5f" * 32
KUBELET = f"registry.example/kubelet@sha256:{DIGEST}"
PROBE = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", "namespace": NAMESPACE},
        "spec": {"containers": [{"name": "probe", "image": "pause", "securityContext": {"privileged": True}}]},
    }
)
"""A pod that the API server judges as it judges an agent's."""


@pytest.fixture
async def hour(request: pytest.FixtureRequest, api_server: ApiServer, admin: KubeClient) -> AsyncIterator[FirstHour]:
    name = request.function.__name__.removeprefix("test_").replace("_", "-")
    async with first_hour(api_server, admin, name) as begun:
        yield begun


async def shows(hour: FirstHour, reason: str, *words: str, node: str | None = None) -> None:
    """Require the reason in the table, and all words on every other screen, whatever golden files say."""
    screens = await hour.screens(node=hour.node if node is None else node)
    check(f"{hour.name}.txt", screens)
    table, *others = map(flowing, screens.values())
    assert reason in table
    for screen in others:
        assert [each for each in words if each not in screen] == [], screen


@asynccontextmanager
async def refusing(
    server: ApiServer, words: str, make: Callable[[], object], undo: Callable[[], object]
) -> AsyncIterator[None]:
    """Make a mistake for which the API server refuses agents in these words, and undo it."""
    await asyncio.to_thread(make)
    try:
        await answered(server, lambda refusal: words in refusal)
        yield
    finally:
        await asyncio.to_thread(undo)
        await answered(server, lambda refusal: not refusal)


async def answered(server: ApiServer, as_wanted: Callable[[str], bool]) -> None:
    """Wait until the API server, which hears of its own objects by watches, answers the probe as wanted."""
    create = functools.partial(server.kubectl_as, "", "create", "--dry-run=server", "-f", "-", stdin=PROBE)
    async with asyncio.timeout(SECONDS):
        while not as_wanted(await asyncio.to_thread(create)):  # noqa: ASYNC110 - it happens in the API server
            await asyncio.sleep(0.1)


def created(server: ApiServer, body: Json) -> None:
    assert server.kubectl_as("", "create", "-f", "-", stdin=json.dumps(body)) == ""


async def test_pod_security_forbids_agents(hour: FirstHour) -> None:
    def enforce(level: str) -> None:
        label = f"pod-security.kubernetes.io/enforce={level}"
        hour.server.kubectl("label", "namespace", NAMESPACE, label, "--overwrite")

    baseline, privileged = (functools.partial(enforce, level) for level in ("baseline", "privileged"))
    async with refusing(hour.server, "violates PodSecurity", baseline, privileged):
        await hour.begins()
        await hour.reports("AgentUnavailable")
        cause, remedy = 'violates PodSecurity "baseline:latest"', "pod-security.kubernetes.io/enforce=privileged"
        await shows(hour, "AgentUnavailable", cause, remedy)


async def test_agent_image_is_missing(hour: FirstHour) -> None:
    """A kubelet before 1.32 says why only when it has tried, and not while it waits to try again."""
    await hour.begins()
    pod = await hour.agent()
    tried = (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{AGENTS.image}": failed to resolve '
        f'reference "{AGENTS.image}": {AGENTS.image}: not found'
    )
    waits = f'Back-off pulling image "{AGENTS.image}"'
    for reason, message in (("ErrImagePull", tried), ("ImagePullBackOff", waits)):
        await hour.kubelet_says(pod, pending([waiting(AGENT_CONTAINER, reason, message)]))
        await hour.is_looked_at()
    await shows(hour, "AgentUnavailable", f"{AGENTS.image}: not found", "push the image, or correct the operator's")


async def test_registry_secret_is_missing(hour: FirstHour) -> None:
    """A kubelet from 1.32 on says why all the time."""
    image = {"ref": KUBELET, "path": "/kubelet", "pullSecret": "registry-key"}
    await hour.begins(kubelet="v1.33.5", artifact={"image": image})
    pod = await hour.agent(PodRole.ARTIFACT)
    message = (
        f'Back-off pulling image "{KUBELET}": ErrImagePull: failed to pull and unpack image "{KUBELET}": failed to '
        f'resolve reference "{KUBELET}": pull access denied, repository does not exist or may require authorization: '
        "authorization failed: no basic auth credentials"
    )
    status = pending([waiting(KEEPER_CONTAINER, "PodInitializing")])
    init = [ran(BUNDLE_CONTAINER), waiting(ARTIFACT_CONTAINER, "ImagePullBackOff", message)]
    await hour.kubelet_says(pod, {**status, "initContainerStatuses": init})
    await hour.reports("ArtifactUnavailable")
    cause, remedy = "authorization failed: no basic auth credentials", "correct the Secret registry-key"
    await shows(hour, "ArtifactUnavailable", cause, remedy)


async def test_digest_is_wrong(hour: FirstHour, tmp_path: Path) -> None:
    """The agent compares, and refuses the node."""
    await hour.begins(artifact={"preStaged": {"linux-amd64": {"path": "/opt/kubelet/kubelet", "sha256": DIGEST}}})
    pod, program = await hour.agent(), PurePosixPath("/usr/bin/kubelet")
    task = parse_task(await hour.admin.get(TASKS, hour.node))
    for path in ("opt/kubelet/kubelet", "usr/bin/kubelet"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(b"another one")
    settings = AgentSettings(
        node=task.name, task=task.name, run_id=task.spec.run_id, namespace=NAMESPACE, host=tmp_path
    )
    with pytest.raises(Refused) as refused:
        stage(settings, NodeArtifacts(tmp_path), HostFiles(tmp_path), task.spec.artifact, program)
    await hour.kubelet_says(pod, {"phase": "Running", "containerStatuses": [runs(AGENT_CONTAINER)]})
    status = refusal_status(task.spec.run_id, (refused.value.finding,))
    await hour.admin.replace_status(TASKS, hour.node, to_json(status))
    await hour.reports("DigestMismatch")
    cause = f"the SHA-256 of /opt/kubelet/kubelet on the node is not {DIGEST[:8]}"
    await shows(hour, "DigestMismatch", cause, "correct the file, or create another NodeUpgrade")


async def test_source_is_not_allowed(hour: FirstHour) -> None:
    url = "https://downloads.example/kubelet"
    await hour.begins(artifact={"platforms": {"linux-amd64": {"url": url, "sha256": DIGEST}}})
    await hour.reports("NotAllowed")
    cause = f"the operator's configuration does not allow URL {url}"
    await shows(hour, "NotAllowed", cause, "manifests/allowed.yaml")


async def test_node_name_is_wrong(hour: FirstHour) -> None:
    await hour.begins(nodes={"names": ["node-typo"]})
    await hour.reports("NodeNotFound")
    cause, remedy = "there is no node node-typo", "correct the name in a new NodeUpgrade"
    await shows(hour, "NodeNotFound", cause, remedy, node="")


async def test_agents_have_no_rights(hour: FirstHour, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent finds out, and ends; what it says last is what its kubelet reports."""
    monkeypatch.setattr(task_reporter, "READ_PATIENCE_SECONDS", 0)
    hour.server.kubectl("delete", "clusterrolebinding", "nodeupgrade-agent")
    try:
        await hour.begins()
        pod = await hour.agent()
        await hour.kubelet_says(pod, {"phase": "Running", "containerStatuses": [runs(AGENT_CONTAINER)]})
        log = await log_without_rights(hour)
        await hour.kubelet_says(pod, {"phase": "Failed", "containerStatuses": [ended(AGENT_CONTAINER, log)]})
        again = await hour.agent(other_than=pod["metadata"]["uid"])
        await hour.kubelet_says(again, {"phase": "Running", "containerStatuses": [runs(AGENT_CONTAINER)]})
        await hour.is_looked_at()
        await shows(hour, "AgentUnavailable", 'cannot get resource "nodeupgradetasks"', "manifests/agent-rbac.yaml")
    finally:
        hour.server.kubectl("apply", "-f", str(ROOT / "manifests/agent-rbac.yaml"))


async def log_without_rights(hour: FirstHour) -> str:
    """Return the end of the log of an agent that may not read its task, as its kubelet reports it."""
    task = parse_task(await hour.admin.get(TASKS, hour.node))
    settings = AgentSettings(node=task.name, task=task.name, run_id=task.spec.run_id, namespace=NAMESPACE)
    async with KubeClient.open(hour.server.kubeconfig("agent")) as agent, asyncio.timeout(SECONDS):

        async def serve() -> None:
            """Ask until the API server has heard, by a watch, that the binding is gone."""
            while True:
                await TaskReporter(settings, agent, lambda status: status).read()

        with pytest.raises(TaskRefusedError) as unheard:
            await serve()
    logged = json.dumps({"event": "task_read_failed", "error": str(unheard.value.__cause__)})
    return f"{logged}\nerror: {unheard.value}\n"


async def test_webhook_is_down(hour: FirstHour) -> None:
    (closed,) = free_ports(1)
    webhook = {
        "name": "policy.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{closed}/validate"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    create = functools.partial(created, hour.server, {**kind, "metadata": {"name": "policy"}, "webhooks": [webhook]})
    delete = functools.partial(hour.server.kubectl, "delete", "validatingwebhookconfiguration", "policy")
    async with refusing(hour.server, "failed calling webhook", create, delete):
        await hour.begins()
        await hour.reports("AgentUnavailable")
        causes = 'failed calling webhook "policy.example.com"', "connection refused"
        await shows(hour, "AgentUnavailable", *causes, "repair the webhook")


async def test_quota_is_used_up(hour: FirstHour) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": NAMESPACE}}
    named = "quota", "small", f"--namespace={NAMESPACE}"

    def create() -> None:
        """Create it, with the status that its controller writes."""
        hard = {"pods": "0"}
        created(hour.server, {**quota, "spec": {"hard": hard}})
        status = json.dumps({"status": {"hard": hard, "used": hard}})
        hour.server.kubectl("patch", *named, "--subresource=status", "--type=merge", f"--patch={status}")

    delete = functools.partial(hour.server.kubectl, "delete", *named)
    async with refusing(hour.server, "exceeded quota", create, delete):
        await hour.begins()
        await hour.reports("AgentUnavailable")
        cause = "exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0"
        await shows(hour, "AgentUnavailable", cause, "raise the quota")


async def test_api_server_is_too_old(hour: FirstHour) -> None:
    await hour.begins(version="v1.34.2")
    await hour.reports("VersionSkew")
    await shows(hour, "VersionSkew", "v1.34.2 is newer than the API server v1.33.13", "upgrade the control plane first")


def pending(containers: list[Json]) -> Json:
    return {"phase": "Pending", "containerStatuses": containers}


def waiting(name: str, reason: str, message: str = "") -> Json:
    return container(name, {"waiting": {"reason": reason, **({"message": message} if message else {})}})


def runs(name: str) -> Json:
    return container(name, {"running": {}})


def ran(name: str) -> Json:
    return container(name, {"terminated": {"exitCode": 0, "reason": "Completed"}})


def ended(name: str, message: str) -> Json:
    return container(name, {"terminated": {"exitCode": 1, "reason": "Error", "message": message}})


def container(name: str, state: Json) -> Json:
    started = {} if "waiting" in state else {"containerID": "containerd://0a"}
    return {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state, **started}
