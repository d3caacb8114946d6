"""Last checks before a start: what is started is what was planned, and so is what it finds.

A program or a configuration may change after it was checked. So both are checked again right before a start, which
costs a few milliseconds.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath

from nodeupgrade.api.json import JsonValue
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.values import Digest
from nodeupgrade.errors import StepFailed
from nodeupgrade.node.checks.units import is_harmless
from nodeupgrade.node.facts.kubelet_start import read_again
from nodeupgrade.node.facts.pod_cgroups import lacking
from nodeupgrade.node.host.systemd import fence_paths
from nodeupgrade.node.host.systemd.environment_files import is_pattern
from nodeupgrade.node.host.systemd.unit_start import UnitStart, differences
from nodeupgrade.node.host.systemd.units import UnitStatus
from nodeupgrade.node.node import Node
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.before_images import require_digest


def require_runtime_as_planned(node: Node, plan: RunPlan) -> None:
    """Require everything that a start of the runtime reads to be as planned.

    Raises:
        StepFailed: something changed since planning, so that the runtime might not come back as it runs.
    """
    if (planned := plan.runtime_start) is None:
        return
    stamp = node.files.stamp(PurePosixPath(planned.program))
    if stamp != _confirmed(node).get(planned.program) and node.files.digest(PurePosixPath(planned.program)) != (
        planned.digest
    ):
        raise _unsafe(planned, f"{planned.program} was changed")
    if found := _difference(node, planned, override=plan.tuning.override):
        raise _unsafe(planned, found)


def require_files_as_planned(node: Node, plan: RunPlan) -> None:
    """Require every file that a start of the kubelet reads to be as planned, while the old kubelet still runs.

    What is found only when no kubelet runs is read by the old one, too, when the run turns back. Files that this run
    exchanges are not looked at.

    Raises:
        StepFailed: a file was changed since planning.
    """
    if (planned := plan.kubelet_start) is None:
        return
    own = {file.path for file in plan.exchanged}
    for path, content in planned.files.items():
        if path in own or path.endswith("/") or is_pattern(path):
            continue
        if (node.files.digest(PurePosixPath(path)) or "") != content:
            raise _unknown(planned, f"{path} was changed")


def require_cgroups_as_planned(node: Node, plan: RunPlan) -> None:
    """Require the pods' cgroups to be what they were, now that systemd has read its files for the last time.

    A ``daemon-reload`` may take controllers away that systemd knows nothing of (kubernetes#128397). It has happened by
    now: systemd sees to it before it answers the next call.

    Raises:
        StepFailed: a pod that runs has lost something.
    """
    if not (lost := lacking(node.files, plan.cgroups)):
        return
    sandboxes = node.runtime.inventory(full=False).sandboxes
    running = {sandbox.pod.uid: sandbox.pod for sandbox in sandboxes if sandbox.ready}
    if pods := [f"{running[uid]} ({', '.join(missing)})" for uid, missing in lost.items() if uid in running]:
        raise StepFailed(
            f"the cgroups of {len(pods)} pods have lost controllers since the run was planned, first: {pods[0]}; any "
            "kubelet that looks would kill them (a `systemctl daemon-reload` may have caused it, kubernetes#128397)",
            reason=Reason.POD_CGROUP_WOULD_CHANGE,
        )


def require_new_program(node: Node, plan: RunPlan) -> str | None:
    """Require the kubelet's unit to start what was planned, and its program to be the new one.

    Returns:
        The stamp of the program that will run.

    Raises:
        StepFailed: either is not as planned.
    """
    swap, planned = plan.swap, plan.kubelet_start
    if planned is not None:
        override = None if swap.arguments is None else swap.arguments.path
        if found := _difference(node, planned, override=override):
            raise _unknown(planned, found)
    return _require(node, swap.path, swap.after, _confirmed(node).get(swap.staged))


def require_old_program(node: Node, plan: RunPlan) -> str | None:
    """Require the kubelet's unit to start the old program, which is put back from the backup if necessary.

    Any other change of the unit is taken as intended, and is no reason to leave the node without a kubelet.

    Returns:
        The stamp of the program that will run.

    Raises:
        StepFailed: another program would be started, although the hashes are the old kubelet's.
    """
    swap, planned = plan.swap, plan.kubelet_start
    known = _confirmed(node).get(swap.path)
    if planned is not None:
        unit = node.services.status(swap.unit)
        _require_no_more_commands(unit, planned)
        if unit.program and unit.program != planned.program:
            return _require_same_elsewhere(node, unit, swap.before)
    try:
        return _require(node, swap.path, swap.before, known)
    except StepFailed:
        _require(node, swap.backup, swap.before, known)
        node.files.replace(PurePosixPath(swap.backup), PurePosixPath(swap.path))
    return _require(node, swap.path, swap.before, known)


def require_startable(node: Node, plan: RunPlan) -> None:
    """Require the same of a runtime that was stopped to write what it stores, before anything starts it.

    Raises:
        StepFailed: as for require_runtime_as_planned(). It stays stopped, and its containers run.
    """
    kind = node.runtime.kind
    if (kind.stops_for_rewriting or kind.remembers_ends) and not node.services.status(plan.runtime_unit).running:
        require_runtime_as_planned(node, plan)


def _difference(node: Node, planned: UnitStart, *, override: str | None = None) -> str | None:
    unit = node.services.status(planned.unit)
    now = read_again(node.files, unit, planned)
    found = next(differences(planned, now, override=override), None)
    if found is None and unit.needs_reload and not _lifted(node, unit):
        return f"the files of {unit.name} were changed"
    return found


def _lifted(node: Node, unit: UnitStatus) -> bool:
    """Report whether systemd has still loaded our removed fence, after an interruption right before the start."""
    drop_in = fence_paths.drop_in(unit.name)
    return str(drop_in) in unit.drop_ins and node.files.read(drop_in) is None


def _require_same_elsewhere(node: Node, unit: UnitStatus, wanted: Digest) -> str | None:
    program = PurePosixPath(unit.program)
    if node.files.digest(program) != wanted:
        raise StepFailed(
            f"{unit.name} would now start {program}, which is not the old kubelet: it stays fenced; "
            f"take that out of the unit (systemctl cat {unit.name})",
            reason=Reason.UNIT_CHANGED,
        )
    return node.files.stamp(program)


def _require_no_more_commands(unit: UnitStatus, planned: UnitStart) -> None:
    for command in unit.commands:
        if command.when != "ExecStart" and command not in planned.commands and not is_harmless(command):
            raise StepFailed(
                f"{unit.name} has {command} now, which may do anything: the kubelet stays fenced; "
                f"take that out of the unit (systemctl cat {unit.name})",
                reason=Reason.UNIT_CHANGED,
            )


def _require(node: Node, path: str, wanted: Digest, known: JsonValue) -> str | None:
    """Return the stamp of a program; its content is read only if the stamp is not the confirmed one."""
    stamp = node.files.stamp(PurePosixPath(path))
    if stamp is None or stamp != known:
        require_digest(node, path, {wanted})
    return stamp


def _confirmed(node: Node) -> Mapping[str, JsonValue]:
    return node.recorded(Step.CONFIRM_BINARIES) or {}


def _unknown(planned: UnitStart, found: str) -> StepFailed:
    detail = f"{found} after the run was planned, so that nobody knows what {planned.unit} would start"
    return StepFailed(detail, reason=Reason.UNIT_CHANGED)


def _unsafe(planned: UnitStart, found: str) -> StepFailed:
    return StepFailed(
        f"{found} after the run was planned, so that nobody knows whether {planned.unit} would come back from a "
        "restart as it is",
        reason=Reason.RUNTIME_CONFIGURATION_DRIFT,
    )
