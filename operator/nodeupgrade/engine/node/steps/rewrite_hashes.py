"""Replace the stored hashes by those the new kubelet will compute.

The runtime answers from memory, so nobody sees any of it until the runtime is restarted: however many
containers there are, the node changes over in one instant.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TypeAlias

from nodeupgrade.api.json import JsonValue, from_json, to_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import PodUid
from nodeupgrade.domain.errors import ContainerGone, StepFailed
from nodeupgrade.domain.node.inventory import ContainerInstance, ContainerState, StoredHashes
from nodeupgrade.domain.node.plan import AwaitedContainer, RunPlan
from nodeupgrade.domain.node.run.failpoints import FIRST_RESTORED, FIRST_REWRITTEN
from nodeupgrade.engine.node import last_look
from nodeupgrade.engine.node.evidence import newcomers
from nodeupgrade.engine.node.node import Node
from nodeupgrade.kubelethash import HashValue
from nodeupgrade.ports.runtime import BeforeImage

Hashes: TypeAlias = "Mapping[tuple[PodUid, str], tuple[StoredHashes, HashValue | None]]"
"""Of each container whose hash depends on the kubelet, what the old one stores and the hash of the new one."""


def prepare(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Read the stored metadata of every container to be rewritten, byte for byte."""
    images = node.runtime.before_images(c.id for c in plan.rewrites())
    for container in plan.rewrites():
        image = images.get(container.id)
        if image is None and container.expendable:
            continue
        if image is None or image.hashes.container != container.before.container:
            found = "nothing" if image is None else str(image.hashes.container)
            raise StepFailed(
                f"{container.pod}/{container.name} stores {found}, planned for {container.before.container}",
                reason=Reason.INVENTORY_CHANGED,
            )
    return {image.container_id: to_json(image, strict=True) for image in images.values()}


def do(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> None:
    """Rewrite all of them; repeating it skips what is written."""
    images = _images(payload)
    changes = [(images[c.id], c.after) for c in plan.rewrites() if c.id in images]
    node.runtime.rewrite(changes[:1])
    node.failpoint(FIRST_REWRITTEN)
    node.runtime.rewrite(changes[1:])


def undo(node: Node, plan: RunPlan, payload: Mapping[str, JsonValue]) -> str | None:
    """Put every byte back, and let the runtime serve it.

    Containers that the new kubelet created in the meantime carry its kind of hash: they get the old kind, or
    the old kubelet would replace them a second time. Of pods that came after the planning the agent knows the hashes.
    """
    node.runtime.wait_until_answering(plan.limits.runtime_restart)
    for image in _images(payload).values():
        with suppress(ContainerGone):
            node.runtime.restore(image)
        node.failpoint(FIRST_RESTORED)
    for container, before in _begun_since(node, plan):
        for present in node.runtime.before_images([container.id]).values():
            node.runtime.rewrite([(present, before)])
    came, doubtful = newcomers.take_back(node, plan)
    hashes = _hashes(plan, came)
    if _serves_another_era(node, hashes):
        last_look.require_runtime_as_planned(node, plan)
        node.services.restart(plan.runtime_unit)
        node.runtime.wait_until_answering(plan.limits.runtime_restart)
        if left := [container.label for container, _ in _of_the_new_kubelet(node, hashes)]:
            raise StepFailed(f"after its restart the runtime still serves hashes of the new kubelet, first: {left[0]}")
    if not doubtful:
        return None
    return f"these came after the planning, and begin again if the old kubelet hashes otherwise: {', '.join(doubtful)}"


def is_done(node: Node, plan: RunPlan, _payload: Mapping[str, JsonValue]) -> bool:
    """Whether every stored hash is the planned one."""
    images = node.runtime.before_images(c.id for c in plan.rewrites())
    return all(c.id in images and images[c.id].hashes == c.after for c in plan.rewrites())


def _images(payload: Mapping[str, JsonValue]) -> dict[str, BeforeImage]:
    return {key: from_json(BeforeImage, document, key, strict=True) for key, document in payload.items()}


def _begun_since(node: Node, plan: RunPlan) -> Iterator[tuple[ContainerInstance, StoredHashes]]:
    """Containers that the new kubelet began, and what the old one would have stored with them."""
    known = {c.id for c in plan.containers}
    return ((c, before) for c, before in _of_the_new_kubelet(node, _hashes(plan)) if c.id not in known)


def _of_the_new_kubelet(node: Node, hashes: Hashes) -> Iterator[tuple[ContainerInstance, StoredHashes]]:
    """Containers that are served with its hash, and what it was or would have been with the old one."""
    for container in node.runtime.inventory(full=False).containers:
        before, after = hashes.get((container.pod.uid, container.name), (None, None))
        if before and container.state is not ContainerState.EXITED and container.hashes.container == after:
            yield container, before


def _serves_another_era(node: Node, hashes: Hashes) -> bool:
    return any(
        container.hashes.container != known[0].container
        for container in node.runtime.inventory(full=False).running()
        if (known := hashes.get((container.pod.uid, container.name))) is not None
    )


def _hashes(plan: RunPlan, came: Iterable[AwaitedContainer] = ()) -> Hashes:
    begun = {(c.pod, c.name): (StoredHashes(container=c.before), c.after) for c in (*plan.awaited, *came)}
    return begun | {(c.pod.uid, c.name): (c.before, c.after.container) for c in plan.rewrites()}
