"""Tests the manifests of agent Pods and artifact Pods."""

from dataclasses import replace
from datetime import timedelta
from pathlib import PurePath

import pytest
import yaml

from nodeupgrade import bundle
from nodeupgrade.api.node_files import KeyReference, NodeFile
from nodeupgrade.api.run_settings import PreflightSettings
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction, TaskArtifact
from nodeupgrade.api.values import NodeName, PodUid
from nodeupgrade.cluster.agent_pods import KUBELET_FROM_IMAGE, VARIABLE, PodRole, file_from_image, volume_on_node
from nodeupgrade.controlplane.settings import from_environment
from nodeupgrade.errors import Refused
from nodeupgrade.fleet.agents.manifests import (
    AgentPodSettings,
    NotAllowedError,
    agent_pod,
    agent_pod_name,
    artifact_pod,
    copy_command,
    view_agent,
)
from nodeupgrade.node.agent.settings import AgentSettings
from nodeupgrade.sources.allowlist import Allowed
from tests.builders.manifests import MANIFESTS
from tests.builders.tasks import task_spec

SETTINGS = AgentPodSettings(
    namespace="nodeupgrade-system",
    image="nodeupgrade:dev",
    allowed=Allowed(images=("registry.example",), files=("/etc/kubernetes",)),
)


def task(artifact: TaskArtifact) -> Task:
    spec = replace(task_spec("node-0"), artifact=artifact)
    return Task(name=NodeName("node-0"), uid="u", resource_version="1", generation=1, spec=spec)


def test_copying_uses_the_bundle_as_the_bundle_wants_to_be_used() -> None:
    wanted = bundle.command(PurePath("/bundle"), "nodeupgrade.node.agent.copy", "/kubelet", "/staging/kubelet")
    assert copy_command("/kubelet") == wanted
    assert str(bundle.DEFAULT_LOCATION) == "/opt/nodeupgrade/bundle"


FROM_IMAGE = TaskArtifact(kind=ArtifactKind.IMAGE, ref="registry.example/kubelet@sha256:" + "a" * 64, path="/kubelet")


def test_the_image_is_in_a_pod_that_has_nothing_of_the_node() -> None:
    """What the pod security standard ``restricted`` wants, and no token either."""
    spec = artifact_pod(task(FROM_IMAGE), SETTINGS)["spec"]
    assert [c["name"] for c in (*spec["initContainers"], *spec["containers"])] == ["bundle", "artifact", "keeper"]
    assert not any(spec[name] for name in ("hostPID", "hostNetwork", "hostIPC", "automountServiceAccountToken"))
    assert {next(iter(volume.keys() - {"name"})) for volume in spec["volumes"]} == {"emptyDir"}
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
    agent = agent_pod(task(FROM_IMAGE), SETTINGS)["spec"]
    assert [c["name"] for c in agent["containers"]] == ["agent"]
    assert "initContainers" not in agent, "what is privileged never has the image's files as its root"


def test_nothing_that_an_image_asks_for_is_loaded() -> None:
    spec = artifact_pod(task(FROM_IMAGE), SETTINGS)["spec"]
    (container,) = (c for c in spec["initContainers"] if c["image"] == FROM_IMAGE.ref)
    empty = {entry["name"] for entry in container["env"] if entry["value"] == ""}
    assert empty >= {"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME"}
    assert {"name": "LC_ALL", "value": "C"} in container["env"], "which LANG and the rest do not change"
    assert container["command"][0] == "/bundle/lib/ld.so"
    masks = [mount for mount in container["volumeMounts"] if mount["mountPath"] == "/etc/ld.so.preload"]
    assert masks == [{"name": "bundle", "mountPath": "/etc/ld.so.preload", "subPath": "nothing", "readOnly": True}]
    provided = spec["initContainers"][0]["command"]
    assert provided == ["cp", "-R", "/opt/nodeupgrade/bundle/.", "/opt/nodeupgrade/nothing", "/bundle/"]


def test_the_agent_is_told_which_pod_has_the_files() -> None:
    pod = agent_pod(task(FROM_IMAGE), SETTINGS, PodUid("1-2-3"))
    told = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
    assert AgentSettings.from_environment(told).artifact_pod == "1-2-3"
    assert AgentSettings.from_environment(told).allowed == SETTINGS.allowed
    without = agent_pod(task(FROM_IMAGE), SETTINGS)["spec"]["containers"][0]["env"]
    assert "ARTIFACT_POD" not in {entry["name"] for entry in without}


def test_of_both_pods_the_operator_knows_which_is_which() -> None:
    now = {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    views = []
    for body in (agent_pod(task(FROM_IMAGE), SETTINGS), artifact_pod(task(FROM_IMAGE), SETTINGS)):
        body["metadata"] |= now
        body["status"] = {
            "phase": "Running",
            "containerStatuses": [
                {"name": body["spec"]["containers"][0]["name"], "containerID": "c://1", "state": {"running": {}}}
            ],
        }
        views.append(view_agent(body))
    assert [view.role for view in views] == [PodRole.AGENT, PodRole.ARTIFACT]
    assert all(view.started for view in views)
    assert len({view.name for view in views}) == 2


FILES = (
    NodeFile(path="/etc/kubernetes/a", sha256="a" * 64, config_map_key_ref=KeyReference(name="cm", key="k")),
    NodeFile(path="/etc/kubernetes/b", sha256="b" * 64, image_path="/in/image"),
    NodeFile(path="/etc/kubernetes/c", sha256="c" * 64, secret_key_ref=KeyReference(name="s", key="k")),
)


@pytest.mark.parametrize("action", [TaskAction.UPGRADE, TaskAction.PRECHECK])
def test_files_come_with_the_pod_each_where_the_agent_looks_for_it(action: TaskAction) -> None:
    made = task(TaskArtifact(kind=ArtifactKind.IMAGE, ref="registry.example/kubelet@sha256:" + "a" * 64, path="/k"))
    asked = replace(made, spec=replace(made.spec, files=FILES, action=action))
    spec = agent_pod(asked, SETTINGS)["spec"]
    environment = {each["name"]: each["value"] for each in spec["containers"][0]["env"]}
    settings = AgentSettings.from_environment(environment)
    assert settings.namespace == SETTINGS.namespace
    settings = replace(settings, from_image=volume_on_node("/var/lib/kubelet", PodUid("u")))

    assert [str(settings.file(index)) for index in (0, 2)] == ["/files/0/content", "/files/2/content"]
    staging = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~empty-dir/staging"
    assert str(settings.extracted(file_from_image(1))) == f"{staging}/file-1"
    assert str(settings.extracted(KUBELET_FROM_IMAGE)) == f"{staging}/kubelet"
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    item = {"items": [{"key": "k", "path": "content"}], "optional": True}
    assert volumes["file-0"] == {"name": "file-0", "configMap": {"name": "cm", **item}}
    assert volumes["file-2"] == {"name": "file-2", "secret": {"secretName": "s", **item}}
    mounts = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"].startswith("file-")]
    assert mounts == [
        {"name": "file-0", "mountPath": "/files/0", "readOnly": True},
        {"name": "file-2", "mountPath": "/files/2", "readOnly": True},
    ]
    of_image = artifact_pod(asked, SETTINGS)["spec"]
    assert of_image["initContainers"][1]["command"][-4:] == ["/k", "/staging/kubelet", "/in/image", "/staging/file-1"]
    assert not any(m["name"].startswith("file-") for c in of_image["initContainers"] for m in c["volumeMounts"])


@pytest.mark.parametrize("kind", list(ArtifactKind))
def test_who_only_looks_gets_the_node_read_only_and_a_place_of_its_own(kind: ArtifactKind) -> None:
    made = task(
        TaskArtifact(
            kind=kind, ref="registry.example/kubelet@sha256:" + "a" * 64, path="/opt/kubelet", url="https://dl.k8s.io/k"
        )
    )
    mounts, volumes = {}, {}
    for action in (TaskAction.UPGRADE, TaskAction.PRECHECK):
        spec = agent_pod(replace(made, spec=replace(made.spec, action=action)), SETTINGS)["spec"]
        mounts[action] = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
        volumes[action] = {volume["name"] for volume in spec["volumes"]}

    assert mounts[TaskAction.PRECHECK]["host"]["readOnly"] is True
    assert not mounts[TaskAction.UPGRADE]["host"].get("readOnly")
    assert mounts[TaskAction.PRECHECK]["staging"]["mountPath"] == "/staging"
    assert "staging" not in mounts[TaskAction.UPGRADE]
    assert all(set(mounts[action]) <= volumes[action] for action in mounts)


def test_agent_is_not_critical_since_a_full_node_evicts_pods_for_critical_ones() -> None:
    staged = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256="a" * 64)
    name = agent_pod(task(staged), SETTINGS)["spec"]["priorityClassName"]
    priority = yaml.safe_load((MANIFESTS / "priority.yaml").read_text())
    assert name == priority["metadata"]["name"]
    assert priority["value"] < 2_000_000_000


@pytest.mark.parametrize("kind", list(ArtifactKind))
def test_a_full_node_has_room_for_it_and_the_kernel_kills_others_first(kind: ArtifactKind) -> None:
    """A kubelet admits what requests nothing; what has a limit is not BestEffort; a quota wants both to be said."""
    image = "registry.example/kubelet@sha256:" + "a" * 64
    made = task(TaskArtifact(kind=kind, ref=image, path="/opt/kubelet", url="https://dl.k8s.io/k"))
    for body in (agent_pod(made, SETTINGS), *([artifact_pod(made, SETTINGS)] if kind is ArtifactKind.IMAGE else [])):
        spec = body["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            assert container["resources"]["requests"] == {"cpu": "0", "memory": "0"}
            assert container["resources"]["limits"].keys() == {"memory"}
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_names_of_agent_pods_fit_and_differ() -> None:
    long, other = NodeName("n" * 252 + "a"), NodeName("n" * 252 + "b")
    assert len(agent_pod_name(long)) == 253
    assert agent_pod_name(long) != agent_pod_name(other)


@pytest.mark.parametrize("given", [{}, {VARIABLE: "/var/lib/failpoints"}])
def test_operator_passes_on_where_failpoints_are(given: dict[str, str]) -> None:
    settings = from_environment({"AGENT_IMAGE": "nodeupgrade:dev", **given}).agents
    staged = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256="a" * 64)
    (agent,) = agent_pod(task(staged), settings)["spec"]["containers"]

    told = {entry["name"]: entry["value"] for entry in agent["env"]}
    assert {name: value for name, value in told.items() if name == VARIABLE} == given


def test_no_agent_is_created_for_a_task_that_somebody_has_written() -> None:
    evil = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/tmp/evil", sha256="a" * 64)
    with pytest.raises(NotAllowedError, match="PreStaged /tmp/evil"):
        agent_pod(task(evil), SETTINGS)
    elsewhere = TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet/k", sha256="a" * 64)
    made = task(elsewhere)
    for unit, refused in (("kubelet.service", False), ("sshd.service", True)):
        asked = replace(made, spec=replace(made.spec, kubelet=replace(made.spec.kubelet, unit=unit)))
        if refused:
            with pytest.raises(NotAllowedError, match=r"the unit sshd\.service"):
                agent_pod(asked, SETTINGS)
        else:
            agent_pod(asked, SETTINGS)
    place = NodeFile(path="/etc/sysconfig/kubelet", sha256="a" * 64, config_map_key_ref=KeyReference(name="c", key="k"))
    with pytest.raises(NotAllowedError, match="the file /etc/sysconfig/kubelet"):
        agent_pod(replace(made, spec=replace(made.spec, files=(*FILES, place))), SETTINGS)


def test_the_agent_is_told_what_was_approved() -> None:
    staged = task(TaskArtifact(kind=ArtifactKind.PRE_STAGED, path="/opt/kubelet", sha256="a" * 64))
    (agent,) = agent_pod(staged, SETTINGS)["spec"]["containers"]
    settings = AgentSettings.from_environment({entry["name"]: entry["value"] for entry in agent["env"]})
    settings.require_approved(staged.spec)
    changes = (
        {"artifact": replace(staged.spec.artifact, sha256="b" * 64)},
        {"kubelet": replace(staged.spec.kubelet, remove_flags=("--authorization-mode",))},
        {"to_version": "v1.33.14"},
        {"files": FILES},
        {"verify": replace(staged.spec.verify, settle=timedelta(0))},
        {"preflight": PreflightSettings(accept=("sysctls_are_allowed",))},
    )
    for change in changes:
        with pytest.raises(Refused, match="was changed after the operator created its agent"):
            settings.require_approved(replace(staged.spec, **change))
    settings.require_approved(replace(staged.spec, action=TaskAction.ABORT, action_reason="Aborted"))
