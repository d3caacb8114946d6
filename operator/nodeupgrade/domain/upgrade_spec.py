"""Reading NodeUpgrade objects: everything the API server checks is checked again, since old ones cannot."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

from nodeupgrade.domain.durations import parse_duration
from nodeupgrade.domain.task import VerifySettings
from nodeupgrade.domain.upgrade import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    PAUSE_ANNOTATION,
    RETRY_ANNOTATION,
    Upgrade,
)
from nodeupgrade.domain.upgrade_status import UpgradeStatus
from nodeupgrade.domain.upgrade_terms import Artifact, NodeSelection, UpgradeSpec
from nodeupgrade.domain.wire import Json, MalformedObjectError, from_json

_VERSION = re.compile(r"v1\.\d+\.\d+([-+][0-9A-Za-z.-]+)?")
_PINNED = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_UNIT = re.compile(r"[A-Za-z0-9:_.@-]+\.service")


def parse_upgrade(body: Json) -> Upgrade:
    """Read a NodeUpgrade; an invalid spec is kept as a problem to report, not raised.

    Raises:
        MalformedObjectError: The status, which only the control plane writes, cannot be read.
    """
    metadata = body["metadata"]
    spec, problem = None, ""
    try:
        spec = parse_spec(body.get("spec"))
    except MalformedObjectError as error:
        problem = f"{error.path or 'spec'}: {error.problem}"
    annotations = metadata.get("annotations") or {}
    created = metadata.get("creationTimestamp")
    return Upgrade(
        name=metadata["name"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=metadata.get("generation", 0),
        spec=spec,
        problem=problem,
        status=from_json(UpgradeStatus, body.get("status", {}), "status"),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        created_at=datetime.fromisoformat(created) if created else None,
        braked=annotations.get(PAUSE_ANNOTATION) == "true",
        approvals=_approvals(metadata, annotations.get(APPROVE_ANNOTATION, "")),
        retry=annotations.get(RETRY_ANNOTATION, ""),
        abandon=annotations.get(ABANDON_ANNOTATION, ""),
    )


def _approvals(metadata: Json, text: str) -> dict[str, str]:
    """Read which waves are approved, and by which client, as far as the API server has recorded that."""
    managers = (
        entry.get("manager", "")
        for entry in metadata.get("managedFields") or ()
        if f"f:{APPROVE_ANNOTATION}" in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
    )
    who = next(managers, "")
    return {name: who for name in map(str.strip, text.split(",")) if name}


def parse_spec(data: Any) -> UpgradeSpec:
    """Read and validate a spec; the CRD says the same, but old API servers do not enforce all of it.

    Raises:
        MalformedObjectError: The first thing wrong with it.
    """
    if not isinstance(data, dict):
        raise MalformedObjectError("spec", "it is missing")
    verify = data.get("verify", {})
    seconds = VerifySettings(
        settle_seconds=_seconds(verify, "settle", "60s"),
        kubelet_down_budget_seconds=_seconds(verify, "kubeletDownBudget", "30s"),
        node_ready_timeout_seconds=_seconds(verify, "nodeReadyTimeout", "60s"),
    )
    plain = {key: value for key, value in data.items() if key != "verify"}
    spec = replace(from_json(UpgradeSpec, plain, "spec"), verify=seconds)
    _check(spec)
    return spec


def _seconds(group: Any, name: str, default: str) -> int:
    text = group.get(name, default) if isinstance(group, dict) else group
    try:
        return int(parse_duration(text).total_seconds())
    except ValueError as error:
        raise MalformedObjectError(f"spec.verify.{name}", str(error)) from None


def _check(spec: UpgradeSpec) -> None:
    if not _VERSION.fullmatch(spec.version):
        raise MalformedObjectError("spec.version", f"{spec.version!r} is not a version such as v1.33.13")
    if not _UNIT.fullmatch(spec.kubelet.unit):
        raise MalformedObjectError("spec.kubelet.unit", f"{spec.kubelet.unit!r} is not the name of a service unit")
    if spec.strategy.max_concurrent.number < 1 or spec.strategy.failure_threshold.number < 1:
        raise MalformedObjectError("spec.strategy", "its numbers must be at least 1")
    _check_selection(spec.nodes)
    _check_artifact(spec.artifact)


def _check_selection(nodes: NodeSelection) -> None:
    selects = nodes.selector is not None and (nodes.selector.match_labels or nodes.selector.match_expressions)
    if not (selects or nodes.names or nodes.all):
        raise MalformedObjectError("spec.nodes", "it selects nothing; give a selector, names, or all: true")


def _check_artifact(artifact: Artifact) -> None:
    sources = (artifact.image, artifact.platforms, artifact.pre_staged)
    if sum(bool(source) for source in sources) != 1:
        raise MalformedObjectError("spec.artifact", "exactly one of image, platforms and preStaged is needed")
    if artifact.image is not None and not _PINNED.fullmatch(artifact.image.ref):
        raise MalformedObjectError("spec.artifact.image.ref", "it is not pinned by a digest (…@sha256:…)")
    if artifact.image is not None and not artifact.image.path.startswith("/"):
        raise MalformedObjectError("spec.artifact.image.path", "it is not an absolute path")
    for platform, download in (artifact.platforms or {}).items():
        where = f"spec.artifact.platforms[{platform}]"
        if not download.url.startswith(("https://", "http://")):
            raise MalformedObjectError(where, f"{download.url!r} is neither an https nor an http URL")
        _check_digest(download.sha256, where)
    for platform, file in (artifact.pre_staged or {}).items():
        where = f"spec.artifact.preStaged[{platform}]"
        if not file.path.startswith("/"):
            raise MalformedObjectError(where, f"{file.path!r} is not an absolute path")
        _check_digest(file.sha256, where)


def _check_digest(text: str, where: str) -> None:
    if not _SHA256.fullmatch(text):
        raise MalformedObjectError(where, "sha256 must be 64 lower-case hexadecimal digits")
