"""The NodeUpgradeTask's status for every outcome of a run, only from data that is on disk."""

from collections.abc import Sequence
from dataclasses import replace

from nodeupgrade.api.limits import CONTAINERS_LISTED, GUARD_DETAIL_LENGTH, MESSAGE_LENGTH, shorten
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import GuardReport, HashCensus, Preview, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.wording import counted
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.node.journal.journal import Journal, Mark
from nodeupgrade.node.own_directories import RUNS
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.run.report import as_planned
from nodeupgrade.node.task_status.run_status import NAMED, hazards, kubelet_status, run_status, runtime_status
from nodeupgrade.node.verification.readiness_flaps import Flaps

_UNTOUCHED = "node untouched: "
AND_UNTOUCHED = "; the node is untouched"


def failed_status(run_id: str, reason: Reason, message: str) -> TaskStatus:
    """Return the status of a run that was given up for a technical reason."""
    return TaskStatus(run_id=run_id, phase=TaskPhase.FAILED, reason=reason, message=shorten(message))


def prechecked_status(run_id: str, plan: RunPlan, preview: Preview) -> TaskStatus:
    """Return the status of ``action: Plan`` without a refusal: what an upgrade would do."""
    warnings = f"; {counted(len(plan.cautions), 'warning')}, see hazards" if plan.cautions else ""
    message = (
        f"no check prevents an upgrade from {plan.from_version} to {plan.to_version}; stored hashes to rewrite: "
        f"{preview.rewritten}, containers that a plain kubelet swap would restart: {preview.would_restart}"
        f"{warnings}"
    )
    return TaskStatus(
        run_id=run_id,
        phase=TaskPhase.PRECHECKED,
        reason=Reason.PRECHECKED,
        message=shorten(message),
        kubelet=kubelet_status(plan, None),
        runtime=runtime_status(plan),
        hashes=as_planned(plan),
        hazards=hazards(plan.warnings),
        preview=preview,
    )


def refusal_status(
    run_id: str,
    findings: tuple[Finding, ...],
    preview: Preview | None = None,
    census: HashCensus | None = None,
) -> TaskStatus:
    """Return the status of a refused node, which was not touched; warnings are listed too."""
    against = tuple(finding for finding in findings if finding.forbids)
    first = against[0]
    listed = "; ".join(str(finding) for finding in against[:NAMED])
    more = f"; and {len(against) - NAMED} more" if len(against) > NAMED else ""
    return TaskStatus(
        run_id=run_id,
        phase=TaskPhase.REFUSED,
        reason=first.reason,
        message=f"{shorten(f'{_UNTOUCHED}{listed}', MESSAGE_LENGTH - len(more))}{more}",
        hashes=census,
        hazards=hazards(findings),
        preview=preview,
    )


def not_repeated_status(run_id: str, plan: RunPlan, ended: Sequence[Journal], instead: TaskStatus) -> TaskStatus:
    """Return the status of a run that was rolled back, and whose next attempt, ``instead``, never began."""
    status = run_status(run_id, plan, ended[-1], ended[:-1])
    why = instead.message.removeprefix(_UNTOUCHED).removesuffix(AND_UNTOUCHED)
    told = shorten(f"; not tried again: {why}", MESSAGE_LENGTH // 2)
    return replace(status, message=f"{shorten(status.message, MESSAGE_LENGTH - len(told))}{told}")


def not_started_status(run_id: str, plan: RunPlan, trouble: str) -> TaskStatus:
    """Return the status of a run whose executor was requested but does not run."""
    status = run_status(run_id, plan, Journal())
    return replace(status, message=shorten(f"{status.message}; waiting for the executor: {trouble}"))


def staged_status(run_id: str, plan: RunPlan) -> TaskStatus:
    """Return the status of a prepared run, which waits for the control plane."""
    message = f"{plan.from_version} to {plan.to_version}: prepared and proved; waiting for the readiness guard"
    return replace(run_status(run_id, plan, Journal()), phase=TaskPhase.STAGED, message=message)


def lingering_status(run_id: str, plan: RunPlan, journal: Journal) -> TaskStatus:
    """Return the status of a run that is over, while the kubelet may not have probed every pod yet."""
    running = Journal(tuple(record for record in journal.records if record.mark is not Mark.FINISHED))
    message = "nothing is left to do; watching which pods are reported unready until the kubelet has probed them all"
    return replace(run_status(run_id, plan, running), message=message)


def with_readiness(status: TaskStatus, flaps: Flaps, guard: GuardReport, unobserved: str) -> TaskStatus:
    """Return the status with the readiness of the node's pods added, or why it was ``unobserved``."""
    told = [guard.detail, f"which pods were reported unready was not observed: {unobserved}" if unobserved else ""]
    flapped = tuple(sorted(flaps.flapped))[:CONTAINERS_LISTED]
    return replace(
        status,
        message=_ended_with(status, flaps) if status.phase.terminal else status.message,
        containers=replace(status.containers, readiness_flaps=flapped),
        guard=replace(guard, detail=shorten("; ".join(filter(None, told)), GUARD_DETAIL_LENGTH)),
    )


def _ended_with(status: TaskStatus, flaps: Flaps) -> str:
    """Return the message with the pods that were or are unready: the first few, and never truncated."""
    meanwhile = tuple(sorted(flaps.flapped)) if status.phase is TaskPhase.SUCCEEDED else ()
    told = {"reported unready meanwhile": meanwhile, "unready although their containers run on": flaps.unready}
    suffix = "".join(f"; {what}: {named(names, NAMED)}" for what, names in told.items() if names)
    if status.message.endswith(suffix) or len(suffix) > MESSAGE_LENGTH * 3 // 4:
        return status.message
    return f"{shorten(status.message, MESSAGE_LENGTH - len(suffix))}{suffix}"


def essential_status(status: TaskStatus, refusal: str) -> TaskStatus:
    """Reduce a status that the API server rejects to what the control plane and people need."""
    told = shorten(f"; the API server rejects the full status; update the CRDs: {refusal}", MESSAGE_LENGTH // 2)
    return TaskStatus(
        run_id=status.run_id,
        observed_generation=status.observed_generation,
        phase=status.phase,
        reason=status.reason,
        message=f"{shorten(status.message, MESSAGE_LENGTH - len(told))}{told}",
        steps=tuple(replace(step, detail=None) for step in status.steps),
        kubelet=status.kubelet,
        containers=replace(status.containers, readiness_flaps=()),
        started_at=status.started_at,
        finished_at=status.finished_at,
    )


def earlier_run_status(run_id: str, plan: RunPlan, ended: Sequence[Journal]) -> TaskStatus:
    """Return the status for an unreported earlier run to another version that was found on the node and is over now."""
    status = run_status(run_id, plan, ended[-1], ended[:-1])
    if status.phase is TaskPhase.ROLLBACK_FAILED:
        return status
    message = f"nothing was begun, since the end of an earlier run to {plan.to_version} had not been reported: "
    return replace(
        status, phase=TaskPhase.REFUSED, reason=Reason.EARLIER_RUN_FOUND, message=shorten(f"{message}{status.message}")
    )


def stranded_status(
    run_id: str, plan: RunPlan, journal: Journal, told: str, earlier: Sequence[Journal] = ()
) -> TaskStatus:
    """Return the status of a run that is not over and needs a person; worse if the node was touched.

    ``told`` says why: its plan or journal cannot be trusted, or what cannot be undone.
    """
    touched = any(each.first(Step.STOP_KUBELET, Mark.DOING) is not None for each in (*earlier, journal))
    told = shorten(told, MESSAGE_LENGTH // 2)
    return replace(
        run_status(run_id, plan, journal),
        phase=TaskPhase.ROLLBACK_FAILED if touched else TaskPhase.FAILED,
        reason=Reason.ROLLBACK_FAILED if touched else Reason.INTERNAL_ERROR,
        message=f"{told}; {Reason.ROLLBACK_FAILED.remedy if touched else 'the node is untouched'}",
    )


def unreadable_status(run_id: str, trouble: str) -> TaskStatus:
    """Return the status of a run whose plan or journal cannot be read: the worst is assumed."""
    told = shorten(f"cannot determine what was done to the node: {trouble}", MESSAGE_LENGTH // 2)
    return TaskStatus(
        run_id=run_id,
        phase=TaskPhase.ROLLBACK_FAILED,
        reason=Reason.ROLLBACK_FAILED,
        message=f"{told}; {Reason.ROLLBACK_FAILED.remedy}; before that, remove the run's directory below {RUNS}",
    )
