"""Pin static pods: write their present UID into their manifests, or take it out where it is not needed any more.

A kubelet derives the UID of a static pod from its decoded manifest, and almost every minor decodes it differently; a
new UID means a new pod. With ``metadata.uid`` in the manifest nothing is derived.
"""

import base64
from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.own_uids import RECORD, render
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.engine.node.exchange import read_contents, restore_contents
from nodeupgrade.engine.node.node import Node


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return the manifests as they are, and what was known of their UIDs."""
    recorded = (RECORD,) if _adds(plan) else ()
    return read_contents(node, (*(PurePosixPath(pin.path) for pin in plan.pins), *recorded))


def do(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Write each manifest with or without its UID; fail if it was changed since planning.

    What the old kubelet computes by itself is recorded before that.
    """
    if _adds(plan):
        node.files.write(RECORD, render(plan.own_uids))
    for pin in plan.pins:
        path = PurePosixPath(pin.path)
        now = node.files.read(path)
        if now == pin.content:
            continue
        if node.files.digest(path) != pin.before or now != _kept(payload, pin.path):
            raise StepFailed(f"{pin.path} was changed after planning", reason=Reason.INVENTORY_CHANGED)
        node.files.write(path, pin.content)


def undo(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Restore the manifests that we wrote; leave those that somebody else changed meanwhile."""
    ours = {pin.path: payload[pin.path] for pin in plan.pins if node.files.read(PurePosixPath(pin.path)) == pin.content}
    recorded = {path: payload[path] for path in (str(RECORD),) if path in payload}
    restore_contents(node, {**ours, **recorded})


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Report whether every manifest is as planned."""
    return all(node.files.read(PurePosixPath(pin.path)) == pin.content for pin in plan.pins)


def _adds(plan: RunPlan) -> bool:
    return any(not pin.removes for pin in plan.pins)


def _kept(payload: Mapping[str, JsonValue], path: str) -> bytes | None:
    content = payload.get(path)
    return None if content is None else base64.b64decode(str(content))
