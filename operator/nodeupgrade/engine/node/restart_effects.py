"""What a restart of the runtime takes and costs: kept images, temporary settings, containers that end with it."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue, from_json
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import ContainerId
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.departures import Departures, divide_without_kubelet, may_end_with_runtime
from nodeupgrade.domain.node.inventory import Inventory
from nodeupgrade.domain.node.plan import PlannedContainer, RunPlan
from nodeupgrade.domain.node.runtime import RuntimeKind, is_drop_in
from nodeupgrade.domain.node.shield import EXCUSE_SECONDS
from nodeupgrade.domain.node.verification import Difference, DifferenceKind
from nodeupgrade.engine.node import start_preconditions
from nodeupgrade.engine.node.evidence import compare
from nodeupgrade.engine.node.kubelet_log import read_log
from nodeupgrade.engine.node.node import Node
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import BeforeImage
from nodeupgrade.ports.services import ServiceManager


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


# Temporary settings of the runtime's restart: files that exist only during a run.


MODE = 0o644


def apply_tuning(node: Node, plan: RunPlan) -> None:
    """Make systemd start the runtime with the tuning; if that fails, as configured."""
    if not plan.tuning.files:
        return
    try:
        for file in plan.tuning.files:
            node.files.write(PurePosixPath(file.path), file.content, mode=MODE)
        node.services.reload()
    except StepFailed:  # a file that systemd has not loaded would look like a change of the unit by somebody else
        with suppress(StepFailed):
            _remove(node.files, filter(is_drop_in, node.runtime.kind.tuning))


def remove_tuning(files: Files, services: ServiceManager, *kinds: RuntimeKind) -> None:
    """Make systemd start runtimes of these kinds as configured again, with a single reload for all of them.

    Files that the drop-ins refer to are removed last.

    Raises:
        StepFailed: a file could not be removed.
    """
    tuning = [path for kind in kinds for path in kind.tuning]
    _remove(files, filter(is_drop_in, tuning))
    services.reload()
    _remove(files, (path for path in tuning if not is_drop_in(path)))


def _remove(files: Files, paths: Iterable[PurePosixPath]) -> None:
    for path in paths:
        files.remove(path)


# Which containers ended with the runtime, while no kubelet runs. See docs/decisions/runtime-clients.md.
#
# What is found before the new kubelet is started is in the journal: once it runs, it starts these containers again, and
# nothing would tell them from containers that it has replaced.


LOOK_SECONDS = 0.05
"""Nobody waits but for containers whose process is gone, and of which the runtime has yet to tell how they ended."""
ENDED = "ended"


def look_without_kubelet(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, Departures]:
    """Compare the inventory with the plan's, and divide the differences; only while no kubelet runs."""
    deadline = node.clock.awake() + min(EXCUSE_SECONDS, node.seconds)
    now, found = compare(node, plan, addresses=addresses)
    while any(_is_pending(plan, each) for each in found) and node.clock.awake() < deadline:
        node.clock.sleep(LOOK_SECONDS)
        now, found = compare(node, plan, addresses=addresses)
    if not any(may_end_with_runtime(plan, each) for each in found):
        return now, Departures(damage=found)
    asked = node.runtime.asked_to_stop(read_log(node, plan.runtime_unit))
    return now, divide_without_kubelet(plan, now, found, asked)


def note_ended(node: Node, plan: RunPlan) -> dict[str, JsonValue]:
    """Return which containers ended with the runtime, for the journal; nothing is asked if none can have."""
    if not plan.rewrites() or not any(c.may_end_with_runtime for c in plan.containers):
        return {}
    if node.services.status(plan.swap.unit).main_pid:  # who knows what it has done
        return {}
    _, seen = look_without_kubelet(node, plan)
    return {ENDED: [each.container for each in seen.ended if each.container is not None]} if seen.ended else {}


def recorded_ended(payload: Mapping[str, JsonValue] | None) -> frozenset[ContainerId]:
    """Return the containers that were noted."""
    listed = (payload or {}).get(ENDED)
    return frozenset(ContainerId(str(each)) for each in listed) if isinstance(listed, list) else frozenset()


def _is_pending(plan: RunPlan, difference: Difference) -> bool:
    return difference.kind is DifferenceKind.ENDING and may_end_with_runtime(plan, difference)
