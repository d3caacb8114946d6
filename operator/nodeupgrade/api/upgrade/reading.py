"""Parses NodeUpgrade objects. Repeats all checks of the API server, since old API servers cannot make all of them."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

from nodeupgrade.api.json import Json, MalformedObjectError, from_json
from nodeupgrade.api.limits import RETRY_TOKEN_LENGTH
from nodeupgrade.api.schema.derive import Problem
from nodeupgrade.api.schema.validation import filled, validate
from nodeupgrade.api.upgrade.frozen import frozen_digest
from nodeupgrade.api.upgrade.object import (
    ABANDON_ANNOTATION,
    APPROVE_ANNOTATION,
    EPOCH_MARK,
    NOTIFIED_PREFIX,
    PAUSE_ANNOTATION,
    RETRY_ANNOTATION,
    Upgrade,
)
from nodeupgrade.api.upgrade.spec import SPEC, UpgradeSpec
from nodeupgrade.api.upgrade.status import UpgradeStatus


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
        created_at=datetime.fromisoformat(created) if created else None,
        braked=annotations.get(PAUSE_ANNOTATION) == "true",
        approvals=_approvals(metadata, annotations.get(APPROVE_ANNOTATION, "")),
        retry=annotations.get(RETRY_ANNOTATION, "")[:RETRY_TOKEN_LENGTH],
        abandoned=annotations.get(ABANDON_ANNOTATION) == metadata["uid"],
        notified={
            name.removeprefix(NOTIFIED_PREFIX): value
            for name, value in annotations.items()
            if name.startswith(NOTIFIED_PREFIX)
        },
        epoch=annotations.get(EPOCH_MARK, ""),
    )


@dataclass(frozen=True, slots=True)
class _Written:
    """A spec as it is written; equal to every other that says the same in the same order."""

    text: str
    data: Any = field(compare=False)


@lru_cache(maxsize=256)
def _parsed(spec: _Written) -> tuple[UpgradeSpec, str]:
    """Return a spec and its frozen digest. Cached: the status is written all the time, and the spec hardly ever.

    Raises:
        MalformedObjectError: As parse_spec().
    """
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
    """Return everything that is wrong with a spec, by the schema and rules that the CRD is generated from.

    Unknown fields are ignored here, since API servers drop them; ``lint`` reports them.
    """
    if spec is None:
        return (Problem("spec", "it is missing; write version, artifact and nodes"),)
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
