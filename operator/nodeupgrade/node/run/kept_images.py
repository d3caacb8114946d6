"""What a restart of the runtime takes and costs: kept images, temporary settings, containers that end with it."""

from collections.abc import Mapping

from nodeupgrade.api.json import JsonValue, from_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import PlannedContainer, RunPlan
from nodeupgrade.node.run import start_preconditions
from nodeupgrade.node.runtimes.runtime import BeforeImage


def images_to_keep(node: Node, plan: RunPlan) -> tuple[PlannedContainer, ...]:
    """Return the containers whose stored metadata is kept: those that are rewritten.

    If the runtime remembers ends, all of them, since a restart may harm each; none if it is not restarted.
    """
    rewritten = plan.rewrites()
    return plan.containers if rewritten and node.runtime.kind.remembers_ends else rewritten


def read_images(payload: Mapping[str, JsonValue]) -> dict[str, BeforeImage]:
    """Return the images that REWRITE_HASHES recorded."""
    return {key: from_json(BeforeImage, document, key, strict=True) for key, document in payload.items()}


def reinstated(node: Node, plan: RunPlan) -> tuple[str, ...]:
    """Have the runtime show again what it has come to take for ended although it runs; return the containers.

    Raises:
        StepFailed: it might not come back from a restart, or cannot be stopped or started.
        Transient: it does not answer.
    """
    if not node.runtime.kind.remembers_ends:
        return ()
    running = {c.id: c.process for c in plan.baseline.running() if c.process is not None}
    living = node.runtime.alive(running.values())
    images = read_images(node.recorded(Step.REWRITE_HASHES) or {}).values()
    concerned = [image for image in images if running.get(image.container_id) in living]
    start_preconditions.require_runtime_as_planned(node, plan)
    if taken := node.runtime.reinstate(concerned):
        node.runtime.wait_until_answering(plan.limits.runtime_restart)
    return tuple(f"{c.pod}/{c.name}" for c in plan.containers if c.id in taken)
