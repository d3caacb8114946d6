"""The manifests of a node's agent and, for a kubelet in an image, of the pod that takes it out; deleted after the run.

The agent is privileged and mounts the host, so everything in it is fixed here. A NodeUpgrade only chooses the image
that the kubelet comes from. That image is the root of a container of another pod, which shares nothing with the host
and has no rights, and no program or library of the image is loaded there.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nodeupgrade import bundle
from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.limits import NAME_LENGTH
from nodeupgrade.api.node_files import NodeFile
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.approved_settings import approval
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.values import NodeName, PodUid
from nodeupgrade.api.wording import sentence
from nodeupgrade.cluster.agent_pods import (
    AGENT_LABELS,
    COMPONENT_LABEL,
    CONTENT,
    KUBELET_FROM_IMAGE,
    RUN_LABEL,
    STAGING,
    VARIABLE,
    AgentPodView,
    PodRole,
    file_from_image,
    file_from_object,
    view_agent_pod,
)
from nodeupgrade.cluster.kube_api import PODS, RejectedError
from nodeupgrade.sources.allowlist import Allowed, forbidden

AGENT_CONTAINER = "agent"
OPERATOR_CONTAINER = "operator"
BUNDLE_CONTAINER, ARTIFACT_CONTAINER, KEEPER_CONTAINER = "bundle", "artifact", "keeper"


SERVICE_ACCOUNT = PRIORITY_CLASS = "nodeupgrade-agent"
"""The priority is high but not system-critical: a kubelet evicts other pods to make room for a critical one."""

UNPRIVILEGED = 65532
"""The user that copies files out of an image: they must be readable by everyone."""

_BUNDLE_MOUNT, _STAGING_MOUNT = PurePosixPath("/bundle"), PurePosixPath("/staging")
_NOTHING = bundle.EMPTY_FILE.name
PROVIDE = ("cp", "-R", f"{bundle.DEFAULT_LOCATION}/.", str(bundle.EMPTY_FILE), f"{_BUNDLE_MOUNT}/")
"""Copies the bundle, and an empty file, into the volume of the bundle; the image has no shell."""

PRELOADED = PurePosixPath("/etc/ld.so.preload")
"""Lists libraries that the dynamic loader would load from the image; an empty file is mounted over it."""

_OF_THE_LOADER = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "LD_DEBUG", "GLIBC_TUNABLES")
_OF_PYTHON = ("PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONINSPECT")
"""Variables of an image that would affect what a program loads; they are set to empty values."""

_RESOURCES: Json = {"requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": "1Gi"}}
"""Requests are zero because a kubelet rejects a pod that does not fit on a full node, and explicit because quotas need
them. The limit makes the pod Burstable: the kernel kills BestEffort pods first, even during an examination."""

_CONFINED: Json = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
_STAGED: Json = {"name": STAGING, "mountPath": str(_STAGING_MOUNT)}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPodSettings:
    """Settings of agent pods that follow from the operator's own deployment."""

    namespace: str
    image: str  # the operator's own, unless its environment names another
    failpoints: str | None = None  # directory on the nodes with the failpoints of a test; None outside of tests
    allowed: Allowed = field(default_factory=Allowed)  # what a run may ask for


def operator_image(pod_spec: Json) -> str | None:
    """Return the image of the operator's container, whoever has set it, which agents get; None if there is none."""
    return next((str(each["image"]) for each in pod_spec["containers"] if each["name"] == OPERATOR_CONTAINER), None)


class NotAllowedError(RejectedError):
    """No agent is created for this task: the operator itself rejects it."""


def agent_pod_name(node: NodeName, role: PodRole = PodRole.AGENT) -> str:
    """Return the name of a node's agent pod; one that is too long is truncated and made unique by a digest."""
    name = f"nodeupgrade-{role.value}-{node}"
    if len(name) <= NAME_LENGTH:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:10]
    return f"{name[: NAME_LENGTH - 11]}-{digest}"


def view_agent(body: Json) -> AgentPodView:
    """Return the view of a pod that agent_pod() or artifact_pod() has described, as the API serves it."""
    return view_agent_pod(
        body, {PodRole.AGENT: AGENT_CONTAINER, PodRole.ARTIFACT: KEEPER_CONTAINER}, ARTIFACT_CONTAINER
    )


class AgentViews:
    """Views pods as view_agent() does, and remembers why pods are blocked."""

    def __init__(self) -> None:
        self._blocked: dict[str, AgentPodView] = {}

    def __call__(self, body: Json) -> AgentPodView:
        """Return the view of a pod."""
        view = view_agent(body).after(self._blocked.pop(body["metadata"]["name"], None))
        if view.blocked and not view.deleting:
            self._blocked[view.name] = view
        return view


def agent_pod(task: Task, settings: AgentPodSettings, artifact: PodUid | None = None) -> Json:
    """Return the manifest of the agent pod for one run.

    ``artifact`` is the pod that has taken the kubelet out of its image, if there is one.

    Raises:
        NotAllowedError: The task asks for what the operator's configuration does not allow. The NodeUpgrade that it was
            made from did not, so somebody has written the task since.
    """
    _require_allowed(task, settings)
    return _pod(
        task,
        settings,
        PodRole.AGENT,
        serviceAccountName=SERVICE_ACCOUNT,
        hostPID=True,
        hostNetwork=True,
        dnsPolicy="Default",
        securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
        containers=[_agent_container(task, settings, artifact)],
        volumes=[
            {"name": "host", "hostPath": {"path": "/", "type": "Directory"}},
            *([{"name": STAGING, "emptyDir": {}}] if _is_precheck(task) else []),
            *(_file_volume(index, file) for index, file in _carried(task)),
        ],
    )


def pod_for(role: PodRole, task: Task, settings: AgentPodSettings, artifact: PodUid | None = None) -> Json:
    """Return the manifest of one of a run's pods. For the other arguments, and errors, see agent_pod()."""
    return agent_pod(task, settings, artifact) if role is PodRole.AGENT else artifact_pod(task, settings)


def artifact_pod(task: Task, settings: AgentPodSettings) -> Json:
    """Return the manifest of the pod that takes the kubelet out of its image, and keeps it until the run is over.

    It meets the pod security standard ``restricted``. Once its init containers have ended, its volume has the files.

    Raises:
        NotAllowedError: As for the agent.
    """
    _require_allowed(task, settings)
    return _pod(
        task,
        settings,
        PodRole.ARTIFACT,
        serviceAccountName=SERVICE_ACCOUNT,
        automountServiceAccountToken=False,
        enableServiceLinks=False,
        hostPID=False,
        hostNetwork=False,
        hostIPC=False,
        imagePullSecrets=[{"name": secret}] if (secret := task.spec.artifact.pull_secret) else [],
        securityContext={
            "runAsNonRoot": True,
            "runAsUser": UNPRIVILEGED,
            "runAsGroup": UNPRIVILEGED,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        initContainers=_artifact_containers(task, settings),
        containers=[
            _confined(KEEPER_CONTAINER, settings.image, ("sleep", "infinity"), [{**_STAGED, "readOnly": True}]),
        ],
        volumes=[{"name": "bundle", "emptyDir": {}}, {"name": STAGING, "emptyDir": {}}],
    )


def _require_allowed(task: Task, settings: AgentPodSettings) -> None:
    problem = forbidden(task.spec.artifact, task.spec.kubelet.unit, task.spec.files, settings.allowed)
    if problem is not None:
        raise NotAllowedError(sentence(Reason.NOT_ALLOWED, f"the operator's configuration does not allow {problem}"))


def _pod(task: Task, settings: AgentPodSettings, role: PodRole, **spec: Json | list[Json] | str | bool) -> Json:
    """Return a pod that is bound to the node, whatever taints and priorities there are, and is never restarted."""
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": agent_pod_name(task.name, role),
            "namespace": settings.namespace,
            "labels": {**AGENT_LABELS, COMPONENT_LABEL: role.value, RUN_LABEL: task.spec.run_id},
        },
        "spec": {
            "nodeName": task.name,
            "priorityClassName": PRIORITY_CLASS,
            "restartPolicy": "Never",
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 10 if role is PodRole.AGENT else 0,
            **spec,
        },
    }


def copy_command(path: str, files: Iterable[tuple[int, str]] = ()) -> tuple[str, ...]:
    """Return the command that copies a kubelet out of any image, using the bundle's Python, loader and libraries.

    It also copies further files, by their place in ``spec.files``.
    """
    further = (word for index, source in files for word in (source, str(_STAGING_MOUNT / file_from_image(index))))
    return bundle.command(_BUNDLE_MOUNT, bundle.COPY, path, str(_STAGING_MOUNT / KUBELET_FROM_IMAGE), *further)


def _carried(task: Task) -> list[tuple[int, NodeFile]]:
    """Return the files that come from ConfigMaps and Secrets, by their place in ``spec.files``."""
    return [(index, file) for index, file in enumerate(task.spec.files) if file.image_path is None]


def _file_volume(index: int, file: NodeFile) -> Json:
    """Return the volume with one file. It is optional: the agent reports a missing one, a pod would only wait."""
    named = file.config_map_key_ref or file.secret_key_ref
    if named is None:
        raise ValueError(f"{file.path} has no source")
    items = {"items": [{"key": named.key, "path": CONTENT}], "optional": True}
    source = (
        {"secret": {"secretName": named.name, **items}}
        if file.secret_key_ref is not None
        else {"configMap": {"name": named.name, **items}}
    )
    return {"name": f"file-{index}", **source}


def _is_precheck(task: Task) -> bool:
    """Report whether the run is a precheck: the host is mounted read-only, and the artifact is fetched into the pod."""
    return task.spec.action is TaskAction.PRECHECK


def _agent_container(task: Task, settings: AgentPodSettings, artifact: PodUid | None) -> Json:
    environment = {"NODE_NAME": task.spec.node_name, "TASK_NAME": task.name, "RUN_ID": task.spec.run_id}
    environment |= {"POD_NAMESPACE": settings.namespace}
    environment |= {"APPROVED": approval(task.spec), "ALLOWED": json.dumps(to_json(settings.allowed))}
    environment |= {"ARTIFACT_POD": artifact} if artifact else {}
    environment |= {VARIABLE: settings.failpoints} if settings.failpoints else {}
    return {
        "name": AGENT_CONTAINER,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "nodeupgrade.node.agent"],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "resources": _RESOURCES,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {
                "name": "host",
                "mountPath": "/host",
                "mountPropagation": "HostToContainer",
                **({"readOnly": True} if _is_precheck(task) else {}),
            },
            *([_STAGED] if _is_precheck(task) else []),
            *(
                {"name": f"file-{index}", "mountPath": file_from_object(index), "readOnly": True}
                for index, _ in _carried(task)
            ),
        ],
    }


def _artifact_containers(task: Task, settings: AgentPodSettings) -> list[Json]:
    """Return the init containers: one provides the bundle, the next uses it to copy the kubelet out of the artifact."""
    artifact = task.spec.artifact
    files = [(index, file.image_path) for index, file in enumerate(task.spec.files) if file.image_path is not None]
    bundled = {"name": "bundle", "mountPath": str(_BUNDLE_MOUNT)}
    preloaded = {"name": "bundle", "mountPath": str(PRELOADED), "subPath": _NOTHING, "readOnly": True}
    mounts = [{**bundled, "readOnly": True}, preloaded, _STAGED]
    return [
        _confined(BUNDLE_CONTAINER, settings.image, PROVIDE, [bundled]),
        {
            **_confined(ARTIFACT_CONTAINER, artifact.ref, copy_command(artifact.path or "", files), mounts),
            "workingDir": "/",
            "env": [
                # With another locale, the C library would load what converts its characters.
                {"name": "LC_ALL", "value": "C"},
                *({"name": name, "value": ""} for name in (*_OF_THE_LOADER, *_OF_PYTHON)),
            ],
            "terminationMessagePolicy": "FallbackToLogsOnError",
        },
    ]


def _confined(name: str, image: str | None, command: Iterable[str], mounts: list[Json]) -> Json:
    """Return a container without rights."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(command),
        "securityContext": _CONFINED,
        "resources": _RESOURCES,
        "volumeMounts": mounts,
    }
