"""Before-images of containers: the stored metadata that the journal keeps until a restarted runtime is verified."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue, from_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import ContainerId
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import PlannedContainer, RunPlan
from nodeupgrade.node.run import start_preconditions
from nodeupgrade.node.runtimes.runtime import BeforeImage


def containers_to_record(node: Node, plan: RunPlan) -> tuple[PlannedContainer, ...]:
    """Return the containers whose stored metadata is recorded: those that are rewritten.

    If the runtime stores which containers have ended, all of them, since its restart may harm each.
    """
    rewritten = plan.rewrites()
    return plan.containers if rewritten and node.runtime.kind.remembers_ends else rewritten


def recorded_images(payload: Mapping[str, JsonValue]) -> dict[ContainerId, BeforeImage]:
    """Return the images that REWRITE_HASHES recorded."""
    return {ContainerId(key): from_json(BeforeImage, document, key, strict=True) for key, document in payload.items()}


def reinstate(node: Node, plan: RunPlan) -> tuple[str, ...]:
    """Make the runtime show containers again that it wrongly considers ended; return their labels.

    Raises:
        StepFailed: the runtime might not come back from a restart, or cannot be stopped or started.
        Transient: it does not answer.
    """
    if not node.runtime.kind.remembers_ends:
        return ()
    running = {c.id: c.process for c in plan.baseline.running() if c.process is not None}
    living = node.runtime.alive(running.values())
    images = recorded_images(node.recorded(Step.REWRITE_HASHES) or {}).values()
    wrong = [image for image in images if running.get(image.container_id) in living]
    start_preconditions.require_runtime_as_planned(node, plan)
    if taken := node.runtime.reinstate(wrong):
        node.runtime.wait_until_answering(plan.limits.runtime_restart)
    return tuple(c.label for c in plan.containers if c.id in taken)
