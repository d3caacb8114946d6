"""The manifest of an agent pod: one pod per node in flight, deleted after the run.

It is privileged and mounts the host, so everything in it is fixed here. A NodeUpgrade only chooses the image that the
kubelet comes from, and no program of that image is run.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.api.limits import NAME_LENGTH
from nodeupgrade.api.reasons import Reason, sentence
from nodeupgrade.api.shared.node_files import NodeFile
from nodeupgrade.api.task.approval import approval
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import ArtifactKind, TaskAction
from nodeupgrade.api.values import NodeName
from nodeupgrade.domain import bundle
from nodeupgrade.domain.agent_pods import (
    CONTENT,
    FROM_IMAGE,
    RUN_LABEL,
    AgentPodView,
    file_from_image,
    file_from_object,
    view_agent_pod,
)
from nodeupgrade.domain.node.run.failpoints import VARIABLE
from nodeupgrade.domain.rollout.allowed import Allowed, forbidden
from nodeupgrade.ports.kube import PODS, RejectedError

AGENT_CONTAINER, BUNDLE_CONTAINER, ARTIFACT_CONTAINER = "agent", "bundle", "artifact"
AGENT_LABELS = {"app.kubernetes.io/name": "nodeupgrade-agent", "app.kubernetes.io/part-of": "nodeupgrade"}
SERVICE_ACCOUNT = PRIORITY_CLASS = "nodeupgrade-agent"
"""The priority is high but not system-critical: a kubelet evicts other pods to make room for a critical one."""

_BUNDLE_MOUNT = PurePosixPath("/bundle")
_RESOURCES: Json = {"requests": {"cpu": "0", "memory": "0"}, "limits": {"memory": "1Gi"}}
"""No request, since a kubelet rejects a pod that a full node has no room for; but told, as quotas ask for. The limit
makes the pod Burstable: one of BestEffort is the first that the kernel kills, also in the middle of an examination."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPodSettings:
    """Settings of agent pods that follow from the operator's own deployment.

    Attributes:
        failpoints: directory on the nodes with the failpoints of a test; ``None`` outside of tests.
        allowed: what a run may ask for.
    """

    namespace: str
    image: str
    failpoints: str | None = None
    allowed: Allowed = field(default_factory=Allowed)


class NotAllowedError(RejectedError):
    """No agent is created for this task: the operator itself rejects it."""


def agent_pod_name(node: NodeName) -> str:
    """Return the name of a node's agent pod; one that is too long is truncated and made unique by a digest."""
    name = f"nodeupgrade-agent-{node}"
    if len(name) <= NAME_LENGTH:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:10]
    return f"{name[: NAME_LENGTH - 11]}-{digest}"


def view_agent(body: Json) -> AgentPodView:
    """Return the view of a pod that agent_pod() has described, as the API serves it."""
    return view_agent_pod(body, AGENT_CONTAINER, ARTIFACT_CONTAINER)


def agent_pod(task: Task, settings: AgentPodSettings) -> Json:
    """Return the manifest of the agent pod for one run.

    Raises:
        NotAllowedError: The task asks for what the operator's configuration does not allow. The NodeUpgrade that it was
            made from did not, so somebody has written the task since.
    """
    artifact, files = task.spec.artifact, [file.path for file in task.spec.files]
    if (problem := forbidden(artifact, task.spec.kubelet.unit, files, settings.allowed)) is not None:
        raise NotAllowedError(sentence(Reason.NOT_ALLOWED, f"the operator's configuration does not allow {problem}"))
    from_image = artifact.kind is ArtifactKind.IMAGE
    staging = from_image or _is_precheck(task)
    secrets = [{"name": artifact.pull_secret}] if artifact.pull_secret else []
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": agent_pod_name(task.name),
            "namespace": settings.namespace,
            "labels": {**AGENT_LABELS, RUN_LABEL: task.spec.run_id},
        },
        "spec": {
            "nodeName": task.name,
            "serviceAccountName": SERVICE_ACCOUNT,
            "priorityClassName": PRIORITY_CLASS,
            "restartPolicy": "Never",
            "hostPID": True,
            "hostNetwork": True,
            "dnsPolicy": "Default",
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 10,
            "imagePullSecrets": secrets,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "initContainers": _artifact_containers(task, settings) if from_image else [],
            "containers": [_agent_container(task, settings, staging=staging)],
            "volumes": [
                {"name": "host", "hostPath": {"path": "/", "type": "Directory"}},
                *([{"name": "bundle", "emptyDir": {}}] if from_image else []),
                *([{"name": "staging", "emptyDir": {}}] if staging else []),
                *(_file_volume(index, file) for index, file in _carried(task)),
            ],
        },
    }


def copy_command(path: str, files: Iterable[tuple[int, str]] = ()) -> tuple[str, ...]:
    """Return the command that copies a kubelet out of any image, using the bundle's Python, loader and libraries.

    Args:
        files: further files to copy, by their place in ``spec.files``.
    """
    further = (word for index, source in files for word in (source, file_from_image(index)))
    return bundle.command(_BUNDLE_MOUNT, bundle.COPY, path, FROM_IMAGE, *further)


def _carried(task: Task) -> list[tuple[int, NodeFile]]:
    """Return the files that come from ConfigMaps and Secrets, by their place in ``spec.files``."""
    return [(index, file) for index, file in enumerate(task.spec.files) if file.image_path is None]


def _file_volume(index: int, file: NodeFile) -> Json:
    """Return the volume with one file. It is optional: the agent tells of one that is missing, a pod only waits."""
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


def _agent_container(task: Task, settings: AgentPodSettings, *, staging: bool) -> Json:
    environment = {"NODE_NAME": task.spec.node_name, "TASK_NAME": task.name, "RUN_ID": task.spec.run_id}
    environment |= {"APPROVED": approval(task.spec)}
    environment |= {VARIABLE: settings.failpoints} if settings.failpoints else {}
    return {
        "name": AGENT_CONTAINER,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "nodeupgrade.agent"],
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
            *([{"name": "staging", "mountPath": "/staging"}] if staging else []),
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
    confined = {
        "runAsUser": 0,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    bundled, staging = {"name": "bundle", "mountPath": str(_BUNDLE_MOUNT)}, {"name": "staging", "mountPath": "/staging"}
    return [
        {
            "name": BUNDLE_CONTAINER,
            "image": settings.image,
            "imagePullPolicy": "IfNotPresent",
            "command": ["cp", "-R", f"{bundle.DEFAULT_LOCATION}/.", f"{_BUNDLE_MOUNT}/"],
            "securityContext": confined,
            "resources": _RESOURCES,
            "volumeMounts": [bundled],
        },
        {
            "name": ARTIFACT_CONTAINER,
            "image": artifact.ref,
            "imagePullPolicy": "IfNotPresent",
            "command": list(copy_command(artifact.path or "", files)),
            "securityContext": confined,
            "resources": _RESOURCES,
            "volumeMounts": [{**bundled, "readOnly": True}, staging],
        },
    ]
