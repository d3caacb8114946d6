"""The pods that workloads would create: their templates, in the form of pods."""

from collections.abc import Mapping
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.cluster.pod_owner import controller_in

_SPEC_TEMPLATE = ("spec", "template")
_PLACES: Mapping[str, tuple[frozenset[str], tuple[str, ...]]] = {
    "Deployment": (frozenset({"apps", "extensions"}), _SPEC_TEMPLATE),
    "ReplicaSet": (frozenset({"apps", "extensions"}), _SPEC_TEMPLATE),
    "DaemonSet": (frozenset({"apps", "extensions"}), _SPEC_TEMPLATE),
    "StatefulSet": (frozenset({"apps"}), _SPEC_TEMPLATE),
    "ReplicationController": (frozenset({""}), _SPEC_TEMPLATE),
    "Job": (frozenset({"batch"}), _SPEC_TEMPLATE),
    "CronJob": (frozenset({"batch"}), ("spec", "jobTemplate", *_SPEC_TEMPLATE)),
    "PodTemplate": (frozenset({""}), ("template",)),
}
"""API groups and the place of the template, by kind. Other groups have kinds of the same names, such as Job."""


def template_of(body: Mapping[str, Any]) -> Json | None:
    """Return the template of a workload as a pod without a status; None if the object is no workload.

    A workload that another one created is none: the other one's template is the same.
    """
    group, separator, _ = str(body.get("apiVersion") or "").rpartition("/")
    groups, path = _PLACES.get(str(body.get("kind")), (frozenset[str](), ()))
    metadata = body.get("metadata")
    if (group if separator else "") not in groups or not isinstance(metadata, Mapping) or controller_in(metadata):
        return None
    found: Any = body
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    name = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
    return {"metadata": name, "spec": found.get("spec") if isinstance(found, Mapping) else None}
