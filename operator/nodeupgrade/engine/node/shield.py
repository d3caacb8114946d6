"""Use the shield during a run: before the new kubelet starts, and again when the old one comes back.

Nothing here stops a rollback: an old kubelet without the shield is better than no kubelet.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue, from_json
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import AwakeTime
from nodeupgrade.domain.errors import StepFailed
from nodeupgrade.domain.node.plan import PlannedContainer, RunPlan
from nodeupgrade.domain.node.runtime import RuntimeKind, is_drop_in
from nodeupgrade.domain.node.shield import RefusedCall
from nodeupgrade.domain.node.verification import GO_ON, Obstacle
from nodeupgrade.engine.node import start_preconditions
from nodeupgrade.engine.node.evidence import evicts, read_log
from nodeupgrade.engine.node.facts.gather import STATE_DIRECTORY
from nodeupgrade.engine.node.node import SHIELD, Node
from nodeupgrade.engine.node.watch import kubelet_lines, refused_since
from nodeupgrade.ports.files import Files
from nodeupgrade.ports.runtime import BeforeImage
from nodeupgrade.ports.services import ServiceManager

LOOK_SECONDS = 0.25
WAITS_SECONDS = 15.0
"""How long to wait for the outcome of calls that wait, which is known after EXCUSE_SECONDS."""
QUIET_SECONDS = 30.0
"""How long a kubelet must not have been refused anything. It repeats a refused call after 10 to 15 s."""


def start(node: Node, plan: RunPlan) -> None:
    """Start the shield's process, which changes nothing yet. Takes a while, so a kubelet should be running.

    Raises:
        StepFailed: it does not start, and the run requires it.
    """
    if plan.shield is None:
        return
    try:
        # That of a run before may still serve calls under way, for as long as pods may take to end. It is lowered.
        if node.services.status(SHIELD).active_state == "deactivating":
            node.services.kill(SHIELD)
        node.services.start(SHIELD)
    except StepFailed as error:
        if plan.shield.required:
            raise StepFailed(f"the shield does not start: {error}", reason=Reason.SHIELD_UNAVAILABLE) from error


def raise_again(node: Node, plan: RunPlan) -> None:
    """Raise the shield for the old kubelet, if it can be."""
    if plan.shield is not None:
        with suppress(StepFailed):
            node.shield.raise_up()


def end(node: Node, plan: RunPlan) -> None:
    """Lower the shield, and let its process end once it has served the calls that are under way.

    Raises:
        StepFailed: the runtime's own socket is not back in its place.
    """
    if plan.shield is not None:
        node.shield.lower()
        if not _is_gone(node):
            node.services.stop(SHIELD, wait=False)  # it serves calls under way to their end
        node.shield.clear()


def _is_gone(node: Node) -> bool:
    """Report whether there is no shield to stop: a reboot removes it. Where systemd does not say, there may be one."""
    try:
        return node.services.status(SHIELD).gone
    except StepFailed:
        return False


def lack(node: Node, plan: RunPlan) -> Obstacle | None:
    """Return why the shield has to stay up for the old kubelet; ``None`` once that has been quiet for long enough.

    Waits for a kubelet that just started and has done no harm so far; not for one that keeps restarting. Nothing is
    held off where the old kubelet evicts pods: the node lacks something, each pod is over in the API as soon as it was
    chosen, and as long as none of them may end, the next one is chosen.
    """
    if plan.shield is None or not node.shield.raised():
        return None
    settle = plan.limits.rollback_settle
    deadline = node.clock.awake() + settle
    while (started := node.services.status(plan.swap.unit).started) is not None:
        now = node.clock.awake()
        calls = _wanted(node, started)
        if calls and now < AwakeTime(calls[-1].monotonic) + QUIET_SECONDS:
            return (
                None
                if _evicts(node, plan)
                else Obstacle(reason=Reason.SHIELD_HELD, why=_still_wanted(node, plan, calls))
            )
        if now >= min(started + settle, deadline) and not node.shield.waiting():
            return None
        if now >= deadline + WAITS_SECONDS:
            return Obstacle(
                reason=Reason.SHIELD_HELD, why="a call waits at the shield, and whether it was refused is not known"
            )
        node.clock.sleep(LOOK_SECONDS)
    return None


def let_through(node: Node, plan: RunPlan, lowered: AwakeTime) -> tuple[RefusedCall, ...]:
    """Return what the old kubelet still wanted when the shield was lowered, one call for each instance.

    Args:
        lowered: when that was.
    """
    started = node.services.status(plan.swap.unit).started
    if plan.shield is None or started is None:
        return ()
    calls = {
        call.instance: call for call in _wanted(node, started) if AwakeTime(call.monotonic) + QUIET_SECONDS > lowered
    }
    return tuple(calls.values())


def _wanted(node: Node, started: AwakeTime) -> tuple[RefusedCall, ...]:
    """Return what a kubelet was refused since its start. Other callers do not repeat what they want."""
    return tuple(call for call in refused_since(node, started) if not call.caller)


def _evicts(node: Node, plan: RunPlan) -> bool:
    return evicts(read_log(node, plan.swap.unit))


def _still_wanted(node: Node, plan: RunPlan, calls: tuple[RefusedCall, ...]) -> str:
    return (
        f"kubelet {plan.from_version} runs again and wants to {calls[-1]}, which the shield refuses for "
        f"{plan.limits.shield_hold:.0f} s{kubelet_lines(node, plan, calls[-1])} "
        f"(to let it have its way at once: touch {STATE_DIRECTORY}/runs/{plan.run_id}/{GO_ON})"
    )


# Apply and remove the temporary settings of the runtime's restart, files that exist only during a run.

MODE = 0o644


def give(node: Node, plan: RunPlan) -> None:
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


def take_back(files: Files, services: ServiceManager, *kinds: RuntimeKind) -> None:
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


# The before-images of a run: which containers have one, and what they are good for besides their hashes.


def of(node: Node, plan: RunPlan) -> tuple[PlannedContainer, ...]:
    """Return the containers whose stored metadata is kept: those that are rewritten.

    If the runtime remembers ends, all of them, since a restart may harm each; none if it is not restarted.
    """
    rewritten = plan.rewrites()
    return plan.containers if rewritten and node.runtime.kind.remembers_ends else rewritten


def read(payload: Mapping[str, JsonValue]) -> dict[str, BeforeImage]:
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
    images = read(node.recorded(Step.REWRITE_HASHES) or {}).values()
    concerned = [image for image in images if running.get(image.container_id) in living]
    start_preconditions.require_runtime_as_planned(node, plan)
    if taken := node.runtime.reinstate(concerned):
        node.runtime.wait_until_answering(plan.limits.runtime_restart)
    return tuple(f"{c.pod}/{c.name}" for c in plan.containers if c.id in taken)
