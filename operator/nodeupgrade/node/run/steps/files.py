"""Steps that exchange files of the kubelet, with no kubelet running."""

import base64
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue, render_record
from nodeupgrade.api.reasons import Reason
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import FIRST_EXCHANGED, FIRST_PUT_BACK
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.derived_uids import RECORD
from nodeupgrade.node.plan.exchanged_files import is_drop_in
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run import file_exchange
from nodeupgrade.node.run.before_images import read_contents, restore_contents
from nodeupgrade.node.run.rescue_arming import lay_down
from nodeupgrade.node.run.steps.actions import Payload, StepActions

DROP_IN_MODE = 0o644


class SaveState(StepActions):
    """Save the kubelet's state files, some of which an older kubelet refuses once a newer one has rewritten them."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the content of the files, which is kept in the journal."""
        return read_contents(node, (PurePosixPath(path) for path in plan.state_files))

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Update the rescue script with the files, and the hashes as they are now; the journal has the files."""
        lay_down(node, plan)

    def undo(self, node: Node, _plan: RunPlan, payload: Payload) -> None:
        """Restore each file that existed and was changed.

        Files that only the newer kubelet created stay: an older one ignores them, and the next upgrade uses them.
        """
        restore_contents(node, {path: content for path, content in payload.items() if content is not None})


class PinStaticPods(StepActions):
    """Pin static pods: write their present UID into their manifests, or take it out where it is not needed any more.

    A kubelet derives the UID of a static pod from its decoded manifest, and almost every minor decodes it differently;
    a new UID means a new pod. With ``metadata.uid`` in the manifest nothing is derived.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the manifests as they are, and what was known of their UIDs."""
        recorded = (RECORD,) if _adds(plan) else ()
        return read_contents(node, (*(PurePosixPath(pin.path) for pin in plan.pins), *recorded))

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Write each manifest with or without its UID; fail if it was changed since planning.

        What the old kubelet computes by itself is recorded before that.
        """
        if _adds(plan):
            node.files.write(RECORD, render_record(plan.own_uids))
        for pin in plan.pins:
            path = PurePosixPath(pin.path)
            now = node.files.read(path)
            if now == pin.content:
                continue
            if node.files.digest(path) != pin.before or now != _kept(payload, pin.path):
                raise StepFailed(f"{pin.path} was changed after planning", reason=Reason.INVENTORY_CHANGED)
            node.files.write(path, pin.content)

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Restore the manifests that we wrote; leave those that somebody else changed meanwhile."""
        ours = {
            pin.path: payload[pin.path] for pin in plan.pins if node.files.read(PurePosixPath(pin.path)) == pin.content
        }
        recorded = {path: payload[path] for path in (str(RECORD),) if path in payload}
        restore_contents(node, {**ours, **recorded})


def _adds(plan: RunPlan) -> bool:
    return any(not pin.removes for pin in plan.pins)


def _kept(payload: Payload, path: str) -> bytes | None:
    content = payload.get(path)
    return None if content is None else base64.b64decode(str(content))


class SwapFiles(StepActions):
    """Exchange the files that go along with the kubelet, each by a copy and one rename.

    New and old files lie beside their places: staged by the agent, kept by confirm-binaries. So the journal holds no
    content, which may be secret.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the digest of each file as it is now; ``undo`` needs nothing, since the plan has the old ones."""
        return {file.path: file_exchange.digest(node, file.path) for file in plan.exchanged}

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Put the new files in place, and make systemd load those that it reads; fail if one was changed."""
        for file in plan.exchanged:
            file_exchange.put(node, file)
            node.failpoint(FIRST_EXCHANGED)
        _reload(node, plan)

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> str | None:
        """Put the old files back, where ours are; leave a file that somebody else changed meanwhile, and say so."""
        foreign = []
        for file in reversed(plan.exchanged):
            if not file_exchange.put_back(node, file):
                foreign.append(file.path)
            node.failpoint(FIRST_PUT_BACK)
        _reload(node, plan)
        return f"changed by somebody else meanwhile, and left so: {', '.join(foreign)}" if foreign else None


def _reload(node: Node, plan: RunPlan) -> None:
    if any(is_drop_in(file.path) for file in plan.exchanged):  # systemd reads it
        node.services.reload()


class SetArguments(StepActions):
    """Start the new kubelet without the flags it no longer knows, by a systemd drop-in that a rollback removes."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return what is at the drop-in's path now, usually nothing."""
        arguments = plan.swap.arguments
        return {} if arguments is None else read_contents(node, [PurePosixPath(arguments.path)])

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Write the drop-in and make systemd load it."""
        arguments = plan.swap.arguments
        if arguments is None:
            return
        node.files.write(PurePosixPath(arguments.path), arguments.content, mode=DROP_IN_MODE)
        node.services.reload()

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Restore what was there."""
        if plan.swap.arguments is None:
            return
        restore_contents(node, payload)
        node.services.reload()
