"""Derive the NodeUpgradeTask's status from plan and journal, and from nothing that is not on disk."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.limits import CONTAINERS_LISTED, GUARD_DETAIL_LENGTH, MESSAGE_LENGTH, STEP_DETAIL_LENGTH
from nodeupgrade.api.reasons import Reason, counted
from nodeupgrade.api.task.status import (
    ContainerCounts,
    GuardReport,
    Hazard,
    KubeletBinary,
    KubeletStatus,
    Preview,
    RuntimeStatus,
    ShieldReport,
    ShieldState,
    StepResult,
    StepStatus,
    TaskPhase,
    TaskStatus,
)
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.domain.finding import Finding
from nodeupgrade.domain.node.evidence.flaps import Flaps
from nodeupgrade.domain.node.plan import RunPlan
from nodeupgrade.domain.node.run.attempts import summed_up
from nodeupgrade.domain.node.run.journal import Journal, Mark, Outcome, Record
from nodeupgrade.domain.node.run.report import RunReport

TOLD = 3
_UNTOUCHED = "node untouched: "
AND_UNTOUCHED = "; the node is untouched"

_RESULTS = {
    Mark.DOING: StepResult.DOING,
    Mark.DONE: StepResult.DONE,
    Mark.FAILED: StepResult.FAILED,
    Mark.UNDOING: StepResult.UNDOING,
    Mark.UNDONE: StepResult.UNDONE,
    Mark.UNDO_FAILED: StepResult.FAILED,
    Mark.HELD: StepResult.UNDOING,
}
_NOT_KNOWN = "whether anything restarted is not known: the runtime did not answer at the end"
_BACKWARD = {Mark.FAILED, Mark.UNDOING, Mark.UNDONE, Mark.UNDO_FAILED}


def shorten(text: str, length: int = MESSAGE_LENGTH) -> str:
    """Truncate a text that is too long for the API, with an ellipsis."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def failed_status(run_id: str, reason: Reason, message: str) -> TaskStatus:
    """Return the status of a run that was given up for a technical reason."""
    return TaskStatus(run_id=run_id, phase=TaskPhase.FAILED, reason=reason, message=shorten(message))


def prechecked_status(run_id: str, plan: RunPlan, preview: Preview) -> TaskStatus:
    """Return the status of ``action: Plan`` without a refusal: what an upgrade would do."""
    warnings = f"; {counted(len(plan.cautions), 'warning')}, see hazards" if plan.cautions else ""
    message = (
        f"nothing objects to an upgrade from {plan.from_version} to {plan.to_version}; stored hashes to rewrite: "
        f"{preview.rewritten}, containers that a plain kubelet swap would restart: {preview.would_restart}"
        f"{warnings}"
    )
    return TaskStatus(
        run_id=run_id,
        phase=TaskPhase.PRECHECKED,
        reason=Reason.PRECHECKED,
        message=shorten(message),
        kubelet=_kubelet(plan, None),
        runtime=_runtime(plan),
        hazards=hazards(plan.warnings),
        preview=preview,
    )


def refusal_status(
    run_id: str,
    findings: tuple[Finding, ...],
    preview: Preview | None = None,
) -> TaskStatus:
    """Return the status of a refused node, which was not touched; warnings are listed too."""
    against = tuple(finding for finding in findings if finding.forbids)
    first = against[0]
    told = "; ".join(str(finding) for finding in against[:TOLD])
    more = f"; and {len(against) - TOLD} more" if len(against) > TOLD else ""
    return TaskStatus(
        run_id=run_id,
        phase=TaskPhase.REFUSED,
        reason=first.reason,
        message=f"{shorten(f'{_UNTOUCHED}{told}', MESSAGE_LENGTH - len(more))}{more}",
        hazards=hazards(findings),
        preview=preview,
    )


def hazards(findings: Sequence[Finding]) -> tuple[Hazard, ...]:
    """Return findings as the API lists them, refusals first. Warnings are few, so room for them is always kept."""
    forbid = [Hazard(reason=f.reason, pod=f.subject, detail=shorten(f.detail)) for f in findings if f.forbids]
    warn = [Hazard(reason=f.reason, detail=shorten(f.detail), warning=True) for f in findings if not f.forbids]
    return (*forbid[: CONTAINERS_LISTED - len(warn)], *warn)


def run_status(run_id: str, plan: RunPlan, journal: Journal, earlier: Sequence[Journal] = ()) -> TaskStatus:
    """Return the status of a run, finished or not, according to its journal.

    Args:
        earlier: the journals of earlier attempts, which are included once this one is over.
    """
    finished = journal.finished
    summary = summed_up((*earlier, journal))
    phase, reason, message = _standing(plan, journal) if summary is None else _ending(plan, summary)
    return TaskStatus(
        run_id=run_id,
        phase=phase,
        reason=reason,
        message=shorten(message),
        steps=_steps(journal, () if summary is None else earlier),
        kubelet=_kubelet(plan, summary),
        runtime=_runtime(plan),
        containers=_containers(plan, summary),
        shield=_shield(plan, journal),
        hazards=hazards(plan.warnings),
        started_at=datetime.fromisoformat(journal.records[0].at) if journal.records else None,
        finished_at=None if finished is None else datetime.fromisoformat(finished.at),
    )


def not_repeated_status(run_id: str, plan: RunPlan, ended: Sequence[Journal], instead: TaskStatus) -> TaskStatus:
    """Return the status of a run whose last attempt was rolled back, and whose next attempt never began.

    Args:
        instead: the status of that next attempt, which did not touch the node.
    """
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
    message = f"{plan.from_version} to {plan.to_version}: ready and proved; waiting for the readiness guard"
    return replace(run_status(run_id, plan, Journal()), phase=TaskPhase.STAGED, message=message)


def lingering_status(run_id: str, plan: RunPlan, journal: Journal) -> TaskStatus:
    """Return the status of a run that is over, while the kubelet may not have probed every pod yet."""
    running = Journal(tuple(record for record in journal.records if record.mark is not Mark.FINISHED))
    message = "nothing is left to do; watching which pods are reported unready until the kubelet has probed them all"
    return replace(run_status(run_id, plan, running), message=message)


def with_readiness(status: TaskStatus, flaps: Flaps, guard: GuardReport, unobserved: str) -> TaskStatus:
    """Return the status with the readiness of the node's pods added.

    Args:
        unobserved: why it is unknown which pods were reported unready; empty if it is known.
    """
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
    suffix = "".join(f"; {what}: {_some(names)}" for what, names in told.items() if names)
    if status.message.endswith(suffix) or len(suffix) > MESSAGE_LENGTH * 3 // 4:
        return status.message
    return f"{shorten(status.message, MESSAGE_LENGTH - len(suffix))}{suffix}"


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return f"{', '.join(names[:TOLD])}{more}"


def essential_status(status: TaskStatus, refusal: str) -> TaskStatus:
    """Reduce a status that the API server rejects to what the control plane and people need."""
    told = shorten(f"; the API server refuses the whole report, update the CRDs: {refusal}", MESSAGE_LENGTH // 2)
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
    message = f"nothing was begun, since the end of an earlier run to {plan.to_version} had not been told: "
    return replace(
        status, phase=TaskPhase.REFUSED, reason=Reason.EARLIER_RUN, message=shorten(f"{message}{status.message}")
    )


def stranded_status(
    run_id: str, plan: RunPlan, journal: Journal, trouble: str, earlier: Sequence[Journal] = ()
) -> TaskStatus:
    """Return the status of a run whose plan or journal cannot be trusted; worse if the node was touched."""
    touched = any(each.first(Step.STOP_KUBELET, Mark.DOING) is not None for each in (*earlier, journal))
    told = shorten(f"the executor stopped: {trouble}", MESSAGE_LENGTH // 2)
    return replace(
        run_status(run_id, plan, journal),
        phase=TaskPhase.ROLLBACK_FAILED if touched else TaskPhase.FAILED,
        reason=Reason.ROLLBACK_FAILED if touched else Reason.INTERNAL_ERROR,
        message=f"{told}; {Reason.ROLLBACK_FAILED.remedy if touched else 'the node is untouched'}",
    )


def unreadable_status(run_id: str, trouble: str) -> TaskStatus:
    """Return the status of a run whose plan or journal cannot be read: the worst has to be assumed."""
    remedy = Reason.ROLLBACK_FAILED.remedy
    return TaskStatus(
        run_id=run_id,
        phase=TaskPhase.ROLLBACK_FAILED,
        reason=Reason.ROLLBACK_FAILED,
        message=f"{shorten(f'cannot tell what was done to the node: {trouble}', MESSAGE_LENGTH // 2)}; {remedy}",
    )


def _standing(plan: RunPlan, journal: Journal) -> tuple[TaskPhase, str, str]:
    steps = [record for record in journal.records if record.step is not None]
    failure = next((record for record in steps if record.mark in _BACKWARD), None)
    if steps and (held := steps[-1]).mark is Mark.HELD:
        return TaskPhase.ROLLING_BACK, _known(held.reason), _held(held)
    if failure is not None:
        return TaskPhase.ROLLING_BACK, failure.reason or Reason.STEP_FAILED, f"going back: {failure.error}"
    current = steps[-1].step if steps else Step.CONFIRM_BINARIES
    phase = TaskPhase.VERIFYING if current in {Step.VERIFY, COMMIT} else TaskPhase.RUNNING
    return phase, Reason.PROGRESSING, f"{plan.from_version} to {plan.to_version}: {current}"


def _held(held: Record) -> str:
    """Return what a run waits for, and what a person must do."""
    remedy = _known(held.reason).remedy
    how = "with the shield up" if held.step is Step.ARM_DEAD_MAN else "with the kubelet fenced"
    told = f"waiting {how}: {held.error}"
    return f"{shorten(told, MESSAGE_LENGTH - len(remedy) - 2)}; {remedy}"


def _known(reason: str | None) -> Reason:
    return Reason(reason) if reason in set(Reason) else Reason.STEP_FAILED


def _ending(plan: RunPlan, summary: RunReport) -> tuple[TaskPhase, str, str]:
    restarts = _restarts(summary)
    match summary.outcome:
        case Outcome.UPGRADED if not summary.looked:
            message = f"kubelet {plan.to_version} runs, and everything had settled, but {_NOT_KNOWN}"
            return TaskPhase.FAILED, Reason.RUNTIME_DID_NOT_ANSWER, message
        case Outcome.UPGRADED if restarts is None:
            message = (
                f"kubelet {plan.from_version} became {plan.to_version}; "
                f"{_unchanged(summary)}, {summary.rewritten} hashes rewritten"
            )
            return TaskPhase.SUCCEEDED, Reason.SUCCEEDED, message
        case Outcome.UPGRADED if summary.rebooted:
            message = f"kubelet {plan.to_version} runs, but the node was rebooted before the run was over: {restarts}"
            return TaskPhase.FAILED, Reason.NODE_REBOOTED, message
        case Outcome.UPGRADED:
            message = f"kubelet {plan.to_version} runs, but {restarts}"
            return TaskPhase.FAILED, Reason.CONTAINER_RESTARTED, message
        case Outcome.ROLLED_BACK:
            restarted = (restarts or "nothing restarted") if summary.looked else _NOT_KNOWN
            message = f"rolled back to {plan.from_version}; {restarted}. Cause: {summary.message}"
            return TaskPhase.ROLLED_BACK, summary.reason, message
        case Outcome.DEGRADED:
            remedy = Reason.ROLLBACK_FAILED.remedy
            return TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED, f"{summary.message}; {remedy}"


def _unchanged(summary: RunReport) -> str:
    if not summary.ended:
        return f"all {summary.baseline} containers are the same instances"
    return (
        f"{summary.baseline - len(summary.ended)} of {summary.baseline} containers are the same instances, the others "
        f"ended by themselves or with their pod: {_some(summary.ended)}"
    )


def _restarts(summary: RunReport) -> str | None:
    """Return what changed; only the first few are named, so that the cause after them is not truncated."""
    if not summary.listed and not summary.restarted:
        return None
    count = f"{summary.restarted} of {summary.baseline} containers restarted"
    return f"{count}, changed: {_some(summary.listed)}"


def _steps(journal: Journal, earlier: Sequence[Journal]) -> tuple[StepStatus, ...]:
    """Return the steps; the kubelet's stop starts with the first attempt that stopped it."""
    steps = {step: status for step in Step if (status := _step(journal, step)) is not None}
    stops = [status for each in earlier if (status := _step(each, Step.STOP_KUBELET)) is not None]
    if stops:
        stop = steps.get(Step.STOP_KUBELET, stops[-1])
        steps[Step.STOP_KUBELET] = replace(stop, started_at=stops[0].started_at)
    return tuple(steps[step] for step in Step if step in steps)


def _step(journal: Journal, step: Step) -> StepStatus | None:
    records = [record for record in journal.records if record.step is step]
    if not records:
        return None
    first, last = records[0], records[-1]
    error = next((record.error for record in reversed(records) if record.error), None)
    return StepStatus(
        name=step,
        result=_RESULTS[last.mark],
        started_at=_moment(first),
        finished_at=_moment(last) if last.mark in {Mark.DONE, Mark.UNDONE, Mark.FAILED} else None,
        detail=None if error is None else shorten(error, STEP_DETAIL_LENGTH),
    )


def _moment(record: Record) -> datetime:
    return datetime.fromisoformat(record.at)


def _kubelet(plan: RunPlan, summary: RunReport | None) -> KubeletStatus:
    before = KubeletBinary(version=plan.from_version, sha256=plan.swap.before, path=plan.swap.path)
    upgraded = summary is not None and summary.outcome is Outcome.UPGRADED
    after = KubeletBinary(version=plan.to_version, sha256=plan.swap.after, path=plan.swap.path) if upgraded else None
    return KubeletStatus(before=before, after=after, down_seconds=None if summary is None else summary.down_seconds)


def _runtime(plan: RunPlan) -> RuntimeStatus:
    name, _, version = plan.runtime.partition(" ")
    return RuntimeStatus(name=name, version=version)


def _shield(plan: RunPlan, journal: Journal) -> ShieldReport:
    if plan.shield is not None:
        raised = journal.first(Step.RAISE_SHIELD, Mark.DONE) is not None
        return ShieldReport(state=ShieldState.RAISED if raised else None)
    obstacle = next((each.detail for each in plan.cautions if each.reason is Reason.SHIELD_UNAVAILABLE), None)
    if obstacle is None:
        return ShieldReport(state=ShieldState.OFF)
    return ShieldReport(state=ShieldState.UNAVAILABLE, detail=shorten(obstacle))


def _containers(plan: RunPlan, summary: RunReport | None) -> ContainerCounts:
    baseline = sum(1 for _ in plan.baseline.running())
    if summary is None:
        return ContainerCounts(baseline=baseline)
    if not summary.looked:
        return ContainerCounts(baseline=summary.baseline, rewritten=summary.rewritten, unknown=summary.baseline)
    return ContainerCounts(
        baseline=summary.baseline,
        rewritten=summary.rewritten,
        unchanged=summary.baseline - summary.restarted - len(summary.ended),
        restarted=summary.restarted,
        restarted_list=summary.listed,
        ended_list=summary.ended[:CONTAINERS_LISTED],
    )
