"""Validate what programs write against the CRDs' schemas, as an API server does.

What people write, the spec of a NodeUpgrade, is not validated: an old API server accepts much of it too, and the
control plane has to cope.
"""

import json
from collections.abc import Iterator
from functools import lru_cache

from nodeupgrade.api.crds import Kind
from nodeupgrade.api.json import Json
from nodeupgrade.api.printer_columns import TASK_KIND, UPGRADE_KIND
from nodeupgrade.api.schema.cel_rules import holds
from nodeupgrade.api.schema.defaulting import filled
from nodeupgrade.api.schema.derive import Problem
from nodeupgrade.api.schema.validation import validate
from nodeupgrade.cluster.kube_api import InvalidError, Resource

_KINDS = {kind.plural: kind for kind in (UPGRADE_KIND, TASK_KIND)}


def reject_misfits(resource: Resource, body: Json) -> None:
    """Make sure that an object matches its schema.

    Raises:
        InvalidError: It does not; the message says where and why.
    """
    kind = _KINDS.get(resource.plural)
    if kind is None:
        return
    if found := list(_misfits(kind, body)):
        name = body["metadata"]["name"]
        raise InvalidError(f"cannot write {resource.plural} {name} because {'; '.join(map(str, found))}")


def _misfits(kind: Kind, body: Json) -> Iterator[Problem]:
    yield from _status_misfits(kind.plural, json.dumps(body.get("status", {})))
    if kind is TASK_KIND:
        # Of the metadata, an API server shows only the name to a rule about the whole object.
        yield from _task_misfits(json.dumps({"metadata": {"name": body["metadata"]["name"]}, "spec": body.get("spec")}))


@lru_cache(maxsize=4096)
def _status_misfits(plural: str, status: str) -> tuple[Problem, ...]:
    """Validate a status, once: most writes leave either it or the spec as it is."""
    schema = _KINDS[plural].status
    return tuple(validate(schema, filled(schema, json.loads(status)), "status"))


@lru_cache(maxsize=4096)
def _task_misfits(text: str) -> tuple[Problem, ...]:
    body, kind = json.loads(text), TASK_KIND
    if spec := tuple(validate(kind.spec, filled(kind.spec, body["spec"]), "spec")):
        return spec
    return tuple(Problem("", rule.message) for rule in kind.rules if not holds(rule.cel, kind.spec, body))
