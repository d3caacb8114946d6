"""What of a spec is frozen once a rollout was accepted: it would mean another rollout.

API servers with CEL reject such edits. Elsewhere the control plane notices them: it compares the digest of the frozen
part with the one it recorded when it accepted the object.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.defaulting import filled, ordered, without_defaults
from nodeupgrade.api.schema.model import ArraySchema, ObjectSchema, Schema
from nodeupgrade.api.upgrade.spec import SPEC


def frozen_digest(spec: Json) -> str:
    """Digest what may not change of a valid spec.

    What is there by default does not count, so an object digests the same before and after a field with a default
    came to exist; nor does the order of sets, nor a field that is not known.
    """
    part = without_defaults(SPEC, ordered(SPEC, _frozen(SPEC, filled(SPEC, spec))))
    text = json.dumps(part, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _frozen(schema: Schema, value: Any) -> Any:  # Any: JSON of that schema
    match schema:
        case ObjectSchema(properties=properties):
            kept = {name: item for name, item in value.items() if not properties[name].mutable}
            return {name: _frozen(properties[name], item) for name, item in kept.items()}
        case ArraySchema(items=item):
            return [_frozen(item, each) for each in value]
        case _:
            return value


def changeable(schema: Schema = SPEC, path: str = "spec") -> Iterator[str]:
    """Name the fields that may be changed at any time, as paths."""
    if schema.mutable:
        yield path
        return
    match schema:
        case ObjectSchema(properties=properties):
            for name, child in properties.items():
                yield from changeable(child, f"{path}.{name}")
        case ArraySchema(items=item):
            yield from changeable(item, f"{path}[]")
        case _:
            pass


def change_rejected() -> str:
    """Say what to do about an edit of the frozen part; what was edited, a digest does not tell."""
    return (
        "a part of the spec that is frozen was changed after the rollout was accepted, so no further node is started; "
        f"restore it to continue, or create another NodeUpgrade. What may be changed: {', '.join(changeable())}; "
        "to nodes.exclude and approvedWaves names are only added"
    )
