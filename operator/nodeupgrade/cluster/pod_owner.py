"""The owner of a pod, as far as the pod itself shows it: a workload, its manifest (a static pod), or none."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pods import Pod
from nodeupgrade.findings.finding import Finding, pod_of

TEMPLATE_HASH = "pod-template-hash"
"""Label with which a Deployment distinguishes the pods of its ReplicaSets; also the end of their names."""


def owner_of(pod: Pod) -> str:
    """Return the kind, namespace and name of whatever created the pod."""
    return owner_in(pod.raw, pod.ref.namespace, pod.ref.name, static=pod.static)


def owner_in(pod: Json, namespace: str, name: str, *, static: bool) -> str:
    """Return the same of a pod that may be of any shape, as files are that a person wrote."""
    if static:
        return f"static pod {namespace}/{name}"
    metadata = _map(pod.get("metadata"))
    controller = controller_in(metadata)
    if controller is None:
        return f"bare pod {namespace}/{name}"
    kind, name = str(controller.get("kind") or "owner"), str(controller.get("name") or "")
    suffix = f"-{_map(metadata.get('labels')).get(TEMPLATE_HASH, '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        kind, name = "Deployment", name.removesuffix(suffix)
    return f"{kind} {namespace}/{name}"


def with_owners(findings: Iterable[Finding], pods: Iterable[Pod]) -> tuple[Finding, ...]:
    """Add to findings about a pod, or a container of one, whose pod it is."""
    by_name = {str(pod): pod for pod in pods}
    return tuple(
        each if (pod := by_name.get(pod_of(each.subject))) is None else replace(each, owner=owner_of(pod))
        for each in findings
    )


def controller_of(pod: Pod) -> Json | None:
    """Return the reference to the controller that would recreate a pod; ``None`` if it has none."""
    return controller_in(pod.metadata)


def controller_in(metadata: Mapping[str, Any]) -> Json | None:
    """Return the reference to the controller in metadata of any shape; ``None`` if there is none."""
    owners = metadata.get("ownerReferences")
    references = [each for each in owners if isinstance(each, dict)] if isinstance(owners, list) else []
    return next((each for each in references if each.get("controller") is True), None)


def _map(given: object) -> Json:
    return given if isinstance(given, dict) else {}
