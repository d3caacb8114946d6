"""The NodeUpgrade object. Parsing repeats all validation, since old API servers cannot do all of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from nodeupgrade.api.json import Json, MalformedObjectError, from_json
from nodeupgrade.api.limits import RETRY_TOKEN_LENGTH
from nodeupgrade.api.schema.defaulting import filled
from nodeupgrade.api.schema.derive import Problem
from nodeupgrade.api.schema.validation import validate
from nodeupgrade.api.upgrade.frozen import frozen_digest
from nodeupgrade.api.upgrade.spec import SPEC, UpgradeSpec
from nodeupgrade.api.upgrade.status import UpgradeStatus

FINALIZER = "nodeupgrade.dev/finish-in-flight"
PAUSE_ANNOTATION = "nodeupgrade.dev/pause"
"""``true`` pauses the rollout: unlike spec.action, it needs no commit in a GitOps repository."""
APPROVE_ANNOTATION = "nodeupgrade.dev/approve"
"""Names of approved waves, separated by commas, in addition to spec.approvedWaves."""
RETRY_ANNOTATION = "nodeupgrade.dev/retry"
"""Any token. For each new token, nodes that failed or were refused are retried once."""
ABANDON_ANNOTATION = "nodeupgrade.dev/abandon"
"""UID of the NodeUpgrade, to delete it while nodes are in flight; their runs continue to the end."""
NOTIFIED_PREFIX = "notified.nodeupgrade.dev/"
"""Prefix of annotations that record the latest notice delivered to each receiver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """A NodeUpgrade object."""

    name: str
    uid: str
    resource_version: str
    generation: int
    spec: UpgradeSpec | None  # None if it is invalid
    spec_digest: str = ""  # digest of its frozen part, see ``api.upgrade.frozen``; empty if the spec is invalid
    problem: str = ""  # why the spec is invalid; empty if it is valid
    status: UpgradeStatus = field(default_factory=UpgradeStatus)
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    created_at: datetime | None = None
    paused_by_annotation: bool = False  # whether the pause annotation is set
    # waves named by the approve annotation, each with the field manager that wrote the annotation
    approvals: Mapping[str, str] = field(default_factory=dict)
    retry: str = ""  # token of the retry annotation
    abandoned: bool = False  # whether the abandon annotation has its UID
    notified: Mapping[str, str] = field(default_factory=dict)  # ID of the latest notice that was delivered, by receiver

    @property
    def has_finalizer(self) -> bool:
        """Whether our finalizer delays deletion."""
        return FINALIZER in self.finalizers

    @property
    def finished(self) -> bool:
        """Whether the rollout is over; its status then only takes note of edits, which have no effect."""
        return self.status.completed_at is not None

    @property
    def retry_requested(self) -> bool:
        """Whether a requested retry has not been handled."""
        return self.retry not in {"", self.status.last_handled_retry}

    @property
    def active(self) -> bool:
        """Whether it may still touch nodes."""
        return not self.finished or bool(self.status.in_flight)


def parse_upgrade(body: Json) -> Upgrade:
    """Parse a NodeUpgrade. An invalid spec is returned as ``problem``, not raised.

    Raises:
        MalformedObjectError: The status, which only the control plane writes, cannot be read.
    """
    metadata = body["metadata"]
    spec, digest, problem = None, "", ""
    try:
        spec, digest = _parsed(_Written(repr(body.get("spec")), body.get("spec")))
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
        spec_digest=digest,
        problem=problem,
        status=from_json(UpgradeStatus, body.get("status", {}), "status"),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        created_at=from_json(datetime, created, "metadata.creationTimestamp") if created else None,
        paused_by_annotation=annotations.get(PAUSE_ANNOTATION) == "true",
        approvals=_approvals(metadata, annotations.get(APPROVE_ANNOTATION, "")),
        retry=annotations.get(RETRY_ANNOTATION, "")[:RETRY_TOKEN_LENGTH],
        abandoned=annotations.get(ABANDON_ANNOTATION) == metadata["uid"],
        notified={
            name.removeprefix(NOTIFIED_PREFIX): value
            for name, value in annotations.items()
            if name.startswith(NOTIFIED_PREFIX)
        },
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """A spec as it is written; equal if its text is."""

    text: str
    data: Any = field(compare=False)


@lru_cache(maxsize=256)
def _parsed(spec: _Written) -> tuple[UpgradeSpec, str]:
    """Return a spec and its frozen digest. Cached: the status is written all the time, and the spec hardly ever."""
    return parse_spec(spec.data), frozen_digest(spec.data)


def _approvals(metadata: Json, text: str) -> dict[str, str]:
    """Return the approved waves and the client that approved them, if the API server has recorded it."""
    managers = (
        entry.get("manager", "")
        for entry in metadata.get("managedFields") or ()
        if f"f:{APPROVE_ANNOTATION}" in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
    )
    who = next(managers, "")
    return {name: who for name in map(str.strip, text.split(",")) if name}


def problems(spec: Any) -> tuple[Problem, ...]:  # Any: JSON that is not yet validated
    """Validate a spec as the CRD does, apart from unknown fields, which API servers drop and ``lint`` reports."""
    if spec is None:
        return (Problem("spec", "required field is missing; write version, artifact and nodes"),)
    return tuple(validate(SPEC, filled(SPEC, spec), "spec"))


def parse_spec(data: Any) -> UpgradeSpec:  # Any: as above
    """Parse and validate a spec, since old API servers do not enforce all of the CRD.

    Raises:
        MalformedObjectError: The spec is invalid; the error is the first problem.
    """
    if not isinstance(data, dict):
        raise MalformedObjectError("spec", problems(data)[0].message)
    complete = filled(SPEC, data)
    for problem in validate(SPEC, complete, "spec"):
        if not problem.warning:
            raise MalformedObjectError(problem.path, problem.message)
    return from_json(UpgradeSpec, complete, "spec")
