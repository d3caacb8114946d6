"""Steps that exchange files of the kubelet, with no kubelet running."""

import base64
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue, render_record
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.failpoints.failpoints import FIRST_EXCHANGED, FIRST_PUT_BACK
from nodeupgrade.node.host.files.files import EntryKind
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.derived_uids import RECORD, OwnUid, OwnUids
from nodeupgrade.node.plan.exchanged_files import exchanges_drop_in
from nodeupgrade.node.plan.manifest_uid import NotEditableError, edited
from nodeupgrade.node.plan.manifest_uid import pin as pin_uid
from nodeupgrade.node.plan.plan import RunPlan, StaticPodPin
from nodeupgrade.node.rescue.script import RESERVE
from nodeupgrade.node.run import file_exchange, kept_files, kubelet_state, reload_look
from nodeupgrade.node.run.rescue_arming import write_script
from nodeupgrade.node.run.steps.actions import Payload, StepActions

DROP_IN_MODE = 0o644


class SaveState(StepActions):
    """Save the kubelet's state files, which an older kubelet may refuse once a newer one has rewritten them."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the content of the files, which is kept in the journal."""
        return kubelet_state.save(node, plan, node.recorded(Step.STOP_KUBELET) or {})

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Replace what is no file, and update the rescue script with the present files and hashes."""
        kubelet_state.put_right(node, payload)
        for path, content in payload.items():
            kept_files.keep(node, plan, path, _decoded(content))
        write_script(node, plan)

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> str | None:
        """Restore what the old kubelet could not read; report what lies there in place of a file."""
        return kubelet_state.restore(node, plan, payload)


class PinStaticPods(StepActions):
    """Pin static pods: write their present UID into their manifests, or remove it where it is no longer needed.

    A kubelet derives the UID of a static pod from its decoded manifest, and almost every minor decodes it differently;
    a new UID means a new pod. With ``metadata.uid`` in the manifest nothing is derived.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the manifests as they are, and the record of UIDs that kubelets computed."""
        recorded = (RECORD,) if _adds(plan) else ()
        return _read_contents(node, (*(PurePosixPath(pin.path) for pin in plan.pins), *recorded))

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Record the UIDs that the old kubelet computes, then write each manifest, except those that were edited.

        Fail if one was changed and still describes the same pod: without the UID, the new kubelet would replace that.
        """
        if _adds(plan):
            node.files.write(RECORD, render_record(_own_uids(plan)))
        for pin in plan.pins:
            path = PurePosixPath(pin.path)
            now = node.files.read(path)
            if now == pin.content:
                continue
            if edited(now, pin.content):  # by its owner: the new kubelet is to replace the pod, as the old one would
                continue
            if node.files.digest(path) != pin.before or now != _decoded(payload.get(pin.path)):
                raise StepFailed(f"{pin.path} was changed after planning", reason=Reason.INVENTORY_CHANGED)
            kept_files.keep(node, plan, pin.path, now)
            node.files.write(path, pin.content)

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> str | None:
        """Restore the manifests that we wrote; leave those that were changed since, and name those that keep the UID.

        One that describes the same pod gets the UID again that we took out: the old kubelet would kill it. Left as well
        is what lies there in place of a file, such as a directory. The record may stay, since its UIDs are still
        those that the old kubelet computes: its disk may be read-only.
        """
        ours, left = dict[str, JsonValue](), list[str]()
        for pin in plan.pins:
            path = PurePosixPath(pin.path)
            try:
                if (now := node.files.read(path)) == pin.content:
                    ours[pin.path] = payload[pin.path]
                elif now is not None and now != _decoded(payload.get(pin.path)):
                    left.append(_left(node, pin, now))
            except StepFailed as error:
                entry = node.files.entry(path)
                if entry is None or entry.kind in {EntryKind.FILE, EntryKind.LINK}:
                    raise
                left.append(str(error))
        left += filter(None, (file_exchange.set_aside(node, PurePosixPath(path)) for path in ours))
        _restore_contents(node, plan, ours)
        try:
            _restore_contents(node, plan, {path: payload[path] for path in (str(RECORD),) if path in payload})
        except StepFailed as error:
            left.append(str(error))
        return "; ".join(filter(None, left)) or None


def _left(node: Node, pin: StaticPodPin, now: bytes) -> str:
    """Leave a manifest that was changed during the run, but for the UID; return what is to be known of it."""
    changed = f"{pin.path}, which was changed during the run"
    if not pin.removes:
        return f"metadata.uid is still in {changed}" if pin.uid.encode() in now else ""
    if edited(now, pin.content):
        return ""
    try:
        node.files.write(PurePosixPath(pin.path), pin_uid(now, pin.uid))
    except (NotEditableError, StepFailed) as error:
        return f"metadata.uid is not in {changed}: {error}"
    return f"metadata.uid is again in {changed}"


def _own_uids(plan: RunPlan) -> OwnUids:
    """Return what is known once the run is over: the old kubelet computed the UIDs that the run writes down."""
    known = {own.path: own for own in plan.own_uids.known} | {
        pin.path: OwnUid(
            node=plan.node,
            path=pin.path,
            manifest=pin.before,
            uid=pin.uid,
            version=plan.from_version,
            gates=plan.gates,
        )
        for pin in plan.pins
        if not pin.removes
    }
    return OwnUids(known=tuple(known.values()))


def _adds(plan: RunPlan) -> bool:
    return any(not pin.removes for pin in plan.pins)


class SwapFiles(StepActions):
    """Exchange the files that belong to the kubelet, each by a copy and one rename.

    The agent stages the new files in the same directories, and confirm-binaries backs up the old ones there, so the
    journal holds no content, which may be secret.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the digest of each file as it is now; ``undo`` uses the plan's."""
        if exchanges_drop_in(plan):
            reload_look.harmless(node)()
        return {file.path: file_exchange.digest(node, file.path) for file in plan.exchanged}

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Put the new files in place, and make systemd load those that it reads; fail if one was changed."""
        for file in plan.exchanged:
            file_exchange.install(node, file)
            node.failpoint(FIRST_EXCHANGED)
        if exchanges_drop_in(plan):
            node.services.reload(reload_look.harmless(node))

    def undo(self, node: Node, plan: RunPlan, _payload: Payload) -> str | None:
        """Restore the old files where ours are; report what is not ours."""
        said = list[str | None]()
        for file in reversed(plan.exchanged):
            said.append(file_exchange.restore(node, file))
            node.failpoint(FIRST_PUT_BACK)
        said.append(_reload_anyway(node) if exchanges_drop_in(plan) else None)
        return "; ".join(filter(None, said)) or None


def _reload_anyway(node: Node) -> str | None:
    """Make systemd load the old kubelet's files, and report the device that this takes: no node stays without one."""
    look = reload_look.unavoidable(node)
    with suppress(StepFailed):
        node.files.remove(RESERVE)
    node.services.reload(look)
    return look.lost


class SetArguments(StepActions):
    """Start the new kubelet without the flags it no longer knows, by a systemd drop-in that a rollback removes."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return what is at the drop-in's path now, usually nothing."""
        if (arguments := plan.swap.arguments) is None:
            return {}
        reload_look.harmless(node)()
        return _read_contents(node, [PurePosixPath(arguments.path)])

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Write the drop-in and make systemd load it."""
        if (arguments := plan.swap.arguments) is not None:
            kept_files.keep(node, plan, arguments.path, _decoded(payload[arguments.path]))
            node.files.write(PurePosixPath(arguments.path), arguments.content, mode=DROP_IN_MODE)
            node.services.reload(reload_look.harmless(node))

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> str | None:
        """Restore or remove the drop-in; SWAP_FILES, undone next, may have to reload: space is kept for one reload."""
        if plan.swap.arguments is None:
            return None
        aside = file_exchange.set_aside(node, PurePosixPath(plan.swap.arguments.path))
        _restore_contents(node, plan, payload)
        lost = None if exchanges_drop_in(plan) else _reload_anyway(node)
        return "; ".join(filter(None, (aside, lost))) or None


def _read_contents(node: Node, paths: Iterable[PurePosixPath]) -> dict[str, JsonValue]:
    """Return the content of each file as base64 text; ``None`` if the file does not exist."""
    contents: dict[str, JsonValue] = {}
    for path in paths:
        data = node.files.read(path)
        contents[str(path)] = None if data is None else base64.b64encode(data).decode("ascii")
    return contents


def _restore_contents(node: Node, plan: RunPlan, contents: Mapping[str, JsonValue]) -> None:
    """Restore each file, or remove it if it did not exist; a file that is already restored is not written."""
    for name, content in contents.items():
        path = PurePosixPath(name)
        before = _decoded(content)
        with suppress(StepFailed):  # what cannot be read is replaced
            if node.files.read(path) == before:
                continue
        if before is None:
            node.files.remove(path)
        else:
            kept_files.put_back(node, plan, name, before, partial(node.files.write, path, before))


def _decoded(content: JsonValue) -> bytes | None:
    return None if content is None else base64.b64decode(str(content))
