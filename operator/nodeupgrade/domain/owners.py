"""Whose pod it is, as far as the pod itself tells: that of a workload, a static pod, or one that nobody owns."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nodeupgrade.api.encoding.json import Json
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.pods import Pod

TEMPLATE_HASH = "pod-template-hash"
"""Label with which a Deployment tells apart the pods of its ReplicaSets; also the end of their names."""


def owner_of(pod: Pod) -> str:
    """Return the kind, namespace and name of whatever created the pod."""
    if pod.mirror or pod.from_manifest:
        return f"static pod {pod}"
    controller = _controller(pod)
    if controller is None:
        return f"bare pod {pod}"
    kind, name = str(controller.get("kind") or "owner"), str(controller.get("name") or "")
    suffix = f"-{pod.labels.get(TEMPLATE_HASH, '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        kind, name = "Deployment", name.removesuffix(suffix)
    return f"{kind} {pod.ref.namespace}/{name}"


def with_owners(findings: Iterable[Finding], pods: Iterable[Pod]) -> tuple[Finding, ...]:
    """Add to findings about a pod, or a container of one, whose pod it is."""
    by_name = {str(pod): pod for pod in pods}
    return tuple(_with_owner(finding, by_name) for finding in findings)


def pod_of(subject: str) -> str:
    """Return the pod as ``namespace/pod`` if the subject is one or a container of one, else an empty string."""
    parts = subject.split("/")
    return "/".join(parts[:2]) if len(parts) in {2, 3} else ""


def _with_owner(finding: Finding, pods: Mapping[str, Pod]) -> Finding:
    pod = pods.get(pod_of(finding.subject))
    return finding if pod is None else replace(finding, owner=owner_of(pod))


def _controller(pod: Pod) -> Json | None:
    owners = (pod.raw.get("metadata") or {}).get("ownerReferences")
    references = [each for each in owners if isinstance(each, dict)] if isinstance(owners, list) else []
    return next((each for each in references if each.get("controller") is True), None)
