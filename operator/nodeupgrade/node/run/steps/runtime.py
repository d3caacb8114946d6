"""Steps of the runtime: its containers are confirmed, their hashes rewritten, and it serves them after a restart."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from nodeupgrade.api.json import JsonValue, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodUid
from nodeupgrade.errors import StepFailed, Transient
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.failpoints.failpoints import FIRST_REWRITTEN, RUNTIME_RESTARTED
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import AwaitedContainer, RunPlan
from nodeupgrade.node.run import (
    before_images,
    hash_restoring,
    inventory_comparison,
    log_files,
    newcomers,
    plan_amendment,
    reload_look,
    restart_tuning,
    start_preconditions,
)
from nodeupgrade.node.run.container_watch import owner_evidence
from nodeupgrade.node.run.inventory_comparison import require_planned
from nodeupgrade.node.run.steps.actions import Payload, StepActions, Unreversed
from nodeupgrade.node.runtimes.inventory import ContainerInstance, ContainerState, Inventory, StoredHashes
from nodeupgrade.node.verification.ended_containers import change_of_owner
from nodeupgrade.node.verification.verification import Difference, hash_differences

ANSWERS_SECONDS = 1.0
"""How long to wait at least for an answer of a runtime that has been started."""
STARTS = 3
"""How often to start a runtime at most that misses how a container ends meanwhile: it may miss another one."""
Hashes: TypeAlias = "Mapping[tuple[PodUid, str], tuple[StoredHashes, HashValue | None]]"
"""By pod and container name: the hashes that the old kubelet stores, and the hash that the new one computes."""


class ConfirmInventory(StepActions):
    """Take in, with the kubelet down, what changed since planning. Nothing starts containers now."""

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the amendment of the plan, which all later steps follow."""
        return plan_amendment.record_of(node, plan)

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Require that exactly what the amended plan names runs."""
        require_planned(node, plan)


class RewriteHashes(StepActions):
    """Replace the stored hashes by those that the new kubelet will compute.

    The runtime answers from memory, so the new hashes become visible all at once, when it restarts.
    """

    def prepare(self, node: Node, plan: RunPlan) -> dict[str, JsonValue]:
        """Return the stored metadata of every container to be rewritten, byte for byte."""
        containers = before_images.containers_to_record(node, plan)
        images = node.runtime.before_images(c.id for c in containers)
        for container in containers:
            image = images.get(container.id)
            if image is None and container.expendable:
                continue
            if image is None or image.hashes.container != container.before.container:
                found = "nothing" if image is None else str(image.hashes.container)
                raise StepFailed(
                    f"{container.label} stores {found}, planned for {container.before.container}",
                    reason=Reason.INVENTORY_CHANGED,
                )
        return {image.container_id: to_json(image, strict=True) for image in images.values()}

    def do(self, node: Node, plan: RunPlan, payload: Payload) -> None:
        """Rewrite all hashes; a repetition skips those that are written.

        A runtime that is stopped for that has to be started again, so its start is checked first.
        """
        if node.runtime.kind.stops_for_rewriting:
            start_preconditions.require_runtime_as_planned(node, plan)
        images = before_images.recorded_images(payload)
        changes = [(images[c.id], c.after) for c in plan.rewrites() if c.id in images]
        node.runtime.rewrite(changes[:1])
        node.failpoint(FIRST_REWRITTEN)
        node.runtime.rewrite(changes[1:])

    def undo(self, node: Node, plan: RunPlan, payload: Payload) -> str | Unreversed | None:
        """Restore every byte, and make the runtime serve it.

        Containers that the new kubelet created meanwhile get the old kubelet's hashes, or it would replace them a
        second time. For pods that were added after planning, the agent reports the hashes. A container whose hash
        cannot be restored is named, and does not keep the node without a kubelet: the shield guards it (see
        docs/decisions/runtimes.md).
        """
        look = reload_look.unavoidable(node)
        start_preconditions.require_startable(node, plan)
        node.runtime.wait_until_answering(plan.limits.runtime_restart)
        planned = {c.id: c for c in plan.containers}
        images = before_images.recorded_images(payload)
        left = hash_restoring.restore_images(node, images, {i: c.after.container for i, c in planned.items()})
        _start_again(node, plan)
        known = {(c.pod.uid, c.name): c.label for c in map(planned.get, left) if c is not None}
        for container, before in _created_since(node, plan):
            if not hash_restoring.store_hash(node, container.id, before, instead_of=container.hashes.container):
                known[container.pod.uid, container.name] = container.label
        _start_again(node, plan)
        restored, doubtful = newcomers.restore_hashes(node, plan)
        _start_again(node, plan)
        for each in restored:
            known.pop((each.pod, each.name), None)
        hashes = {key: value for key, value in _hashes(plan, restored).items() if key not in known}
        if _serves_another_era(node, hashes):
            restart_tuning.restore_tuning(node, plan, look)
            _restart_until_heard(node, plan, _restart_back)
            if remaining := [container.label for container, _ in _with_new_hash(node, hashes)]:
                raise StepFailed(
                    f"after its restart the runtime still serves hashes of the new kubelet, first: {remaining[0]}"
                )
        labels = sorted(doubtful.values())
        said = "; ".join(filter(None, (_unrestored(sorted(known.values()), labels), look.lost))) or None
        return Unreversed(said, doubtful) if said and doubtful else said

    def is_done(self, node: Node, plan: RunPlan, _payload: Payload) -> bool:
        """Report whether every stored hash is the planned one."""
        images = node.runtime.before_images(c.id for c in plan.rewrites())
        return all(c.id in images and images[c.id].hashes == c.after for c in plan.rewrites())


def _restart_until_heard(node: Node, plan: RunPlan, restart: Callable[[Node, RunPlan], None]) -> None:
    """Restart the runtime, and again as long as it misses how a container ends meanwhile."""
    for _ in range(STARTS):
        restart(node, plan)
        if not inventory_comparison.misses_an_end(node, plan):
            break


def _restart_back(node: Node, plan: RunPlan) -> None:
    start_preconditions.restart_runtime(node, plan, node.runtime.inventory().running())
    node.runtime.wait_until_answering(plan.limits.runtime_restart)


def _start_again(node: Node, plan: RunPlan) -> None:
    """Start a runtime that was stopped for its hashes to be written; what comes next asks it."""
    if node.runtime.kind.stops_for_rewriting:
        start_preconditions.require_startable(node, plan)
        node.runtime.wait_until_answering(plan.limits.runtime_restart)


def _unrestored(unknown: Sequence[str], doubtful: Sequence[str]) -> str | None:
    """Return a sentence about the containers that the old kubelet may restart."""
    causes = (
        ("their stored hash could not be restored, since another process changed their metadata", unknown),
        ("added or changed after planning", doubtful),
    )
    said = [f"{why}, so the old kubelet may restart them: {', '.join(labels)}" for why, labels in causes if labels]
    return "; ".join(said) or None


def _created_since(node: Node, plan: RunPlan) -> Iterator[tuple[ContainerInstance, StoredHashes]]:
    """Return the containers that the new kubelet created, with the hashes that the old one would have stored."""
    known = {c.id for c in plan.containers}
    return ((c, before) for c, before in _with_new_hash(node, _hashes(plan)) if c.id not in known)


def _with_new_hash(node: Node, hashes: Hashes) -> Iterator[tuple[ContainerInstance, StoredHashes]]:
    """Yield the containers that serve the new kubelet's hash, with the hashes of the old one."""
    for container in node.runtime.inventory().containers:
        before, after = hashes.get((container.pod.uid, container.name), (None, None))
        if before and container.state is not ContainerState.EXITED and container.hashes.container == after:
            yield container, before


def _serves_another_era(node: Node, hashes: Hashes) -> bool:
    return any(
        container.hashes.container != known[0].container
        for container in node.runtime.inventory().running()
        if (known := hashes.get((container.pod.uid, container.name))) is not None
    )


def _hashes(plan: RunPlan, restored: Iterable[AwaitedContainer] = ()) -> Hashes:
    planned = {(c.pod.uid, c.name): (c.before, c.after.container) for c in plan.rewrites()}
    return _begun(plan.awaited) | planned | _begun(restored)


def _begun(
    containers: Iterable[AwaitedContainer],
) -> dict[tuple[PodUid, str], tuple[StoredHashes, HashValue | None]]:
    return {(c.pod, c.name): (StoredHashes(container=c.before), c.after) for c in containers}


class RestartRuntime(StepActions):
    """Restart the runtime, which serves annotations from memory, so that it reads the rewritten hashes.

    Undoing REWRITE_HASHES restarts it again, once the hashes are restored.
    """

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Restart and wait until the CRI *answers*; an active unit does not mean that it does.

        Fail without a restart if the runtime might come back with another configuration.
        """
        if not plan.rewrites():
            return
        _restart_until_heard(node, plan, self._restart)

    def _restart(self, node: Node, plan: RunPlan) -> None:
        start_preconditions.require_runtime_as_planned(node, plan)
        log_files.require_put_away(node, plan)
        start_preconditions.require_unlocked(node, plan)
        began, seconds = node.clock.awake(), min(plan.limits.runtime_restart, node.seconds)
        node.services.restart(plan.runtime_unit, seconds=seconds)
        node.failpoint(RUNTIME_RESTARTED)
        try:
            node.runtime.wait_until_answering(max(ANSWERS_SECONDS, seconds - (node.clock.awake() - began)))
        except Transient as error:
            why = "; ".join(filter(None, (start_preconditions.who_keeps_it_waiting(node, plan), str(error))))
            raise StepFailed(why, reason=Reason.RUNTIME_DID_NOT_ANSWER) from error
        if restored := before_images.reinstate(node, plan):
            raise StepFailed(
                f"the restarted runtime considered {len(restored)} running containers ended, first: {restored[0]}; "
                "their records were restored",
                reason=Reason.VERIFICATION_FAILED,
            )

    def is_done(self, node: Node, plan: RunPlan, _payload: Payload) -> bool:
        """Report whether the runtime serves the planned hashes."""
        try:
            return not hash_differences(plan.containers, node.runtime.inventory())
        except Transient:
            return False


class ReadBack(StepActions):
    """Read back what the runtime serves after its restart, before the new kubelet sees it."""

    def do(self, node: Node, plan: RunPlan, _payload: Payload) -> None:
        """Require the same instances with their new hashes, and every sandbox ready with its address.

        Only what ended because the runtime was restarted, or for its owner, may be missing: a container that the old
        kubelet was ending goes on to do so without one. Where no hash changes, the runtime was not restarted either,
        and nothing has happened since CONFIRM_INVENTORY that could be read back.
        """
        if not plan.rewrites():
            return
        now, seen = inventory_comparison.compare_without_kubelet(node, plan, addresses=True)
        planned = {c.id for c in plan.containers}
        if began := [c.label for c in now.running() if c.id not in planned]:  # a call that was under way at the stop
            raise StepFailed(f"{began[0]} began while no kubelet ran", reason=Reason.INVENTORY_CHANGED)
        damage = _unwanted(node, plan, now, seen.damage)
        if found := (*damage, *hash_differences(plan.containers, now)):
            raise StepFailed(
                f"after the runtime restart {len(found)} instances are not as planned, first: {found[0]}",
                reason=Reason.VERIFICATION_FAILED,
            )


def _unwanted(node: Node, plan: RunPlan, now: Inventory, damage: tuple[Difference, ...]) -> tuple[Difference, ...]:
    if not damage:
        return ()
    owners = owner_evidence(node, plan)
    return tuple(each for each in damage if change_of_owner(plan, now, each, owners) is None)
