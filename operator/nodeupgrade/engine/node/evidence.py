"""Evidence of what became of containers: instances, logs, newcomers, and what was recreated."""

import re

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.values import AwakeTime, ContainerId
from nodeupgrade.domain.errors import StepFailed, Transient
from nodeupgrade.domain.hazards import named
from nodeupgrade.domain.node.inventory import ContainerInstance, ContainerState, Inventory, StoredHashes
from nodeupgrade.domain.node.plan import AwaitedContainer, Newcomers, RunPlan
from nodeupgrade.domain.node.shield import EXCUSE_SECONDS, RefusedCall
from nodeupgrade.domain.node.verification import (
    GO_ON,
    Difference,
    Obstacle,
    affected,
    appeared,
    unplanned,
    unshown,
)
from nodeupgrade.engine.node import start_preconditions
from nodeupgrade.engine.node.facts.own_places import STATE_DIRECTORY
from nodeupgrade.engine.node.node import Node

LOOK_SECONDS = 0.25


def compare(node: Node, plan: RunPlan, *, addresses: bool = False) -> tuple[Inventory, tuple[Difference, ...]]:
    """Return the present inventory, and how it differs from the plan's baseline, perhaps also in sandboxes' addresses.

    Process and start time identify an instance, so details are requested for each container only if something
    differs: the exit code shows whether a container completed meanwhile.
    """
    now = node.runtime.inventory(full=False, addresses=addresses)
    if not (changes := unplanned(plan, now)):
        return now, changes
    now = node.runtime.inventory(full=True)
    return now, unplanned(plan, now)


def require_planned(node: Node, plan: RunPlan) -> None:
    """Require exactly the planned containers to run.

    Raises:
        StepFailed: something changed since planning.
    """
    now, lost = compare(node, plan)
    if changes := (*lost, *appeared(plan.baseline, now, planned=plan.containers)):
        raise StepFailed(
            f"{len(changes)} containers changed since planning, first: {changes[0]}",
            reason=Reason.INVENTORY_CHANGED,
            changed=affected(each.label for each in lost),
        )


# What a kubelet or a runtime logged, for messages and as evidence. A log that cannot be read says nothing.

CAUSE = re.compile(
    r"failed (liveness|startup) probe|probeType=.?(Liveness|Startup)|definition changed|resource definition|"
    r"[Ee]vict|[Pp]reempt|rejected|Failed to admit|DeadlineExceeded|active on the node longer"
)
"""What a kubelet says when it ends a container for a reason other than a deleted pod."""
ERROR = re.compile(
    r'[EF][0-9]{4} [^]]*\] (?:.*\berr="(?P<err>(?:[^"\\]|\\.)*)"|(?P<text>.*))|[{].*"err":"(?P<json>(?:[^"\\]|\\.)*)"'
)
"""An error of a kubelet, in klog's text or its JSON."""
EVICTS = "eviction manager: must evict pod(s)"
QUOTED = 320
"""Characters of a line in a message."""


def read_log(node: Node, unit: str) -> tuple[str, ...]:
    """Return the lines of a unit's present process."""
    try:
        return node.services.log(unit)
    except StepFailed:
        return ()


def cause(log: tuple[str, ...], call: RefusedCall) -> str:
    """Return the kubelet's line that says why it wanted something, or else its last line about the instance.

    To be appended to a message; empty if there is neither. Since not every line names the container, those that name
    its pod count too.
    """
    namespace, _, rest = call.label.partition("/")
    pod = f"{namespace}/{rest.partition('/')[0]}"
    about = [line for line in log if (call.instance and call.instance in line) or pod in line]
    said = next((line for line in reversed(about) if CAUSE.search(line)), "").strip()
    return f"; the kubelet wrote: {said[:QUOTED]}" if said else quoted(log, call.instance)


def evicts(log: tuple[str, ...]) -> bool:
    """Report whether a kubelet evicts pods because the node lacks something (all versions; since 1.4)."""
    return any(EVICTS in line.lower() for line in log)


def last_errors(log: tuple[str, ...]) -> str:
    """Return the last two errors that a kubelet logged, to be appended to a message; empty if there is none.

    The last one often says only that it ends; the one before it says why.
    """
    said = [match[match.lastgroup or 0][:QUOTED] for line in log if (match := ERROR.match(line))]
    return f"; the kubelet wrote: {'; '.join(said[-2:])}" if said else ""


def quoted(log: tuple[str, ...], instance: str) -> str:
    """Return the kubelet's last line about an instance, to be appended to a message; empty if there is none."""
    said = next((line for line in reversed(log) if instance in line), "").strip()
    return f"; the kubelet wrote: {said[:QUOTED]}" if said and instance else ""


# Restore the old kubelet's hashes of containers in pods that were added after planning.
#
# The executor cannot compute them, since it has no pods. So it uses the agent's report, if there is one, and waits for
# it only for a moment; neither its content nor its absence stops a rollback.

HASH = re.compile("[0-9a-f]{1,16}")


def take_back(node: Node, plan: RunPlan) -> tuple[tuple[AwaitedContainer, ...], tuple[str, ...]]:
    """Store the old kubelet's hash with each new container that stores exactly the hash which the agent reported.

    Returns:
        The containers that store it now, and the labels of those that the old kubelet may not recognise.
    """
    known = plan.pods()
    present = node.runtime.inventory(full=False).containers
    unplanned = [c for c in present if c.pod.uid not in known and c.state is not ContainerState.EXITED]
    report = _reported(node, unplanned)
    expectations = {(c.pod, c.name): c for c in report.containers}
    taken, doubtful = [], []
    for container in unplanned:
        expected = expectations.get((container.pod.uid, container.name))
        if expected is None:
            doubtful += [container.label] if container.pod.uid not in report.pods else []
        elif _store(node, container.id, expected):
            taken.append(expected)
        else:
            doubtful.append(container.label)
    return tuple(taken), tuple(sorted(doubtful))


def _reported(node: Node, unplanned: list[ContainerInstance]) -> Newcomers:
    pods = {container.pod.uid for container in unplanned}
    deadline = node.clock.awake() + EXCUSE_SECONDS
    report = (node.newcomers() if unplanned else None) or Newcomers()
    while not pods.issubset(report.pods) and node.clock.awake() < deadline:
        node.clock.sleep(LOOK_SECONDS)
        report = node.newcomers() or report
    return report


def _store(node: Node, container: ContainerId, expected: AwaitedContainer) -> bool:
    try:
        image = node.runtime.before_images([container]).get(container)
    except StepFailed:  # its stored form cannot be rewritten
        return False
    if image is None or not HASH.fullmatch(expected.before):
        return False
    if image.hashes.container == expected.after:
        node.runtime.rewrite([(image, StoredHashes(container=expected.before))])
    return image.hashes.container in {expected.before, expected.after}  # the former after an interruption


# Wait for static pods that the new kubelet is to replace, and count what it has replaced.

LEAVE_SECONDS = 60.0
"""How long a kubelet may take to begin; a pod that runs on until then is kept, since its UID has not changed."""
RETURN_SECONDS = 300.0
"""How long pods may take to end, with their grace period, and to run again."""


def are_back(node: Node, plan: RunPlan, *, since: AwakeTime) -> bool:
    """Report whether every container of these pods runs again, or was kept, since the new kubelet was first watched.

    Raises:
        StepFailed: they do not run again in time.
    """
    if not (wanted := plan.to_recreate()):
        return True
    may_complete = {c.id for c in plan.containers if c.may_complete}
    try:
        now = tuple(node.runtime.inventory(full=False).running())
    except Transient:
        return False
    kept = {c.id for c in now}
    fresh = {c.label for c in now} - {c.label for c in wanted if c.id in kept}
    waited = node.clock.awake() - since
    away = [
        c.label
        for c in wanted
        if c.id not in may_complete and c.label not in fresh and (c.id not in kept or waited < LEAVE_SECONDS)
    ]
    if away and waited > RETURN_SECONDS:
        raise StepFailed(
            f"the new kubelet was to replace static pods, and after {waited:.0f} s {away[0]} does not run again",
            reason=Reason.VERIFICATION_FAILED,
        )
    return not away


def replaced(plan: RunPlan, now: Inventory) -> tuple[str, ...]:
    """Return the labels of the containers that were replaced."""
    kept = {c.id for c in now.running()}
    return tuple(c.label for c in plan.to_recreate() if c.id not in kept)


# Check that the runtime shows everything that still runs, before hashes or a kubelet depend on it.

PATIENCE_SECONDS = 10.0
"""How long to wait for a runtime that was just restarted before it counts as not answering."""


def lack(node: Node, plan: RunPlan, *, rebooted: bool) -> Obstacle | None:
    """Return why the runtime is not fit for the old kubelet; ``None`` if it is.

    Where a kubelet runs already, nothing is required; after a reboot, which ended everything, only an answer.
    """
    try:
        if node.services.status(plan.swap.unit).main_pid:
            return None
        now = _inventory(node, plan)
        hidden = () if rebooted else unshown(plan, now, node.runtime.alive)
    except Transient:
        return Obstacle(reason=Reason.RUNTIME_DID_NOT_ANSWER, why="the runtime does not answer")
    except StepFailed as error:
        return Obstacle(reason=error.reason, why=str(error))
    if not hidden:
        return None
    anyway = f"touch {STATE_DIRECTORY}/runs/{plan.run_id}/{GO_ON}"
    return Obstacle(
        reason=Reason.RUNTIME_LOST_PODS,
        why=f"the runtime does not show {len(hidden)} of the instances that still run: {named(hidden, 3)} "
        f"(to start the kubelet all the same, which makes them a second time: {anyway})",
    )


def require_shown(node: Node, plan: RunPlan) -> None:
    """Check again right before a kubelet starts: the runtime may have been restarted since the last check.

    Raises:
        StepFailed: the runtime does not show everything that still runs.
        Transient: it does not answer.
    """
    if hidden := unshown(plan, node.runtime.inventory(full=False), node.runtime.alive):
        raise StepFailed(
            f"the runtime does not show {len(hidden)} of the instances that still run, such as {hidden[0]}",
            reason=Reason.RUNTIME_LOST_PODS,
        )


def _inventory(node: Node, plan: RunPlan) -> Inventory:
    try:
        return node.runtime.inventory(full=False)
    except Transient:
        start_preconditions.require_startable(node, plan)
        node.runtime.wait_until_answering(PATIENCE_SECONDS)
        return node.runtime.inventory(full=False)
