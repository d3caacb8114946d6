"""Derive the status of a run, finished or not, from its plan and journal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from nodeupgrade.api.limits import (
    CONTAINER_LENGTH,
    CONTAINERS_LISTED,
    LABEL_LENGTH,
    LISTED_PER_HAZARD,
    MESSAGE_LENGTH,
    STEP_DETAIL_LENGTH,
    shorten,
)
from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.status import (
    BetweenAttempts,
    ContainerCounts,
    FileChange,
    KubeletBinary,
    KubeletPackage,
    KubeletStatus,
    ManifestUid,
    PodOwner,
    ReportedHazard,
    RuntimeStatus,
    ShieldReport,
    ShieldState,
    StaticPodManifest,
    StepResult,
    StepStatus,
    TaskPhase,
    TaskStatus,
)
from nodeupgrade.api.task.step import COMMIT, Step
from nodeupgrade.api.wording import counted
from nodeupgrade.findings.finding import Finding, named
from nodeupgrade.findings.ranking import Group, ranked
from nodeupgrade.node.journal.journal import Journal, Mark, Outcome, Record
from nodeupgrade.node.journal.plan_in_effect import plan_in_effect
from nodeupgrade.node.plan.plan import RunPlan
from nodeupgrade.node.plan.static_pod_uids import Pins
from nodeupgrade.node.run.attempts import is_worth_another, summed_up
from nodeupgrade.node.run.report import RunReport, as_left, as_planned, report_of
from nodeupgrade.text import parse_time

NAMED = 3


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


_WITH_RUNTIME = ", when their connection to the restarted runtime broke: "
_BACKWARD = {Mark.FAILED, Mark.UNDOING, Mark.UNDONE, Mark.UNDO_FAILED}


def run_status(run_id: str, plan: RunPlan, journal: Journal, earlier: Sequence[Journal] = ()) -> TaskStatus:
    """Return the status of a run by its journal; once it is over, earlier attempts are included."""
    plan = plan_in_effect(plan, journal)
    finished = journal.finished
    summary = summed_up((*earlier, journal))
    if summary is None:
        phase, reason, message = _standing(plan, journal)
    else:
        phase, reason, message = _ending(plan, summary, rewrote=any(map(_rewrote, (*earlier, journal))))
    stale = "" if summary is None else _stale_sockets(plan, journal, summary)
    return TaskStatus(
        run_id=run_id,
        phase=phase,
        reason=reason,
        message=f"{shorten(message, MESSAGE_LENGTH - len(stale))}{stale}",
        steps=_steps(journal, () if summary is None else earlier),
        kubelet=kubelet_status(plan, summary),
        runtime=runtime_status(plan),
        containers=_containers(plan, summary, report_of(journal)),
        hashes=as_planned(plan) if summary is None or finished is None else as_left(plan, summary, _moment(finished)),
        manifests=() if summary is None else left_manifests(plan, upgraded=summary.outcome is Outcome.UPGRADED),
        shield=_shield(plan, journal),
        hazards=hazards(plan.warnings),
        started_at=_moment(journal.records[0]) if journal.records else None,
        finished_at=None if finished is None else _moment(finished),
        between_attempts=() if summary is None else tuple(_between(earlier, journal)),
    )


def hazards(findings: Sequence[Finding]) -> tuple[ReportedHazard, ...]:
    """Return findings as the API lists them, grouped and ranked; there is always room for half of them as warnings."""
    found = [_hazard(group) for group in ranked(findings)]
    forbid, warn = [each for each in found if not each.warning], [each for each in found if each.warning]
    forbid = forbid[: max(CONTAINERS_LISTED - len(warn), CONTAINERS_LISTED // 2)]
    return (*forbid, *warn[: CONTAINERS_LISTED - len(forbid)])


def _hazard(group: Group) -> ReportedHazard:
    first = group.first
    return ReportedHazard(
        reason=first.reason,
        check=first.check,
        pod=shorten(first.subject, CONTAINER_LENGTH),
        detail=shorten(first.detail),
        pods=len(group.pods),
        others=tuple(shorten(subject, CONTAINER_LENGTH) for subject in group.subjects[1 : LISTED_PER_HAZARD + 1]),
        owners=tuple(
            PodOwner(name=shorten(owner, CONTAINER_LENGTH), pods=number)
            for owner, number in group.owners[:LISTED_PER_HAZARD]
        ),
        warning=not first.forbids,
        accepted=first.accepted,
    )


def _standing(plan: RunPlan, journal: Journal) -> tuple[TaskPhase, str, str]:
    steps = [record for record in journal.records if record.step is not None]
    failure = next((record for record in steps if record.mark in _BACKWARD), None)
    if steps and (held := steps[-1]).mark is Mark.HELD:
        return TaskPhase.ROLLING_BACK, held.known_reason, _held(held)
    if failure is not None:
        message = f"going back: {failure.error}"
        if (last := steps[-1]).mark is Mark.UNDO_FAILED and last.step is not None:
            times = counted(journal.count(last.step, Mark.UNDO_FAILED), "time")
            message = f"{message}; undoing {last.step} failed {times} and is tried again, at last because {last.error}"
        return TaskPhase.ROLLING_BACK, failure.reason or Reason.STEP_FAILED, shorten(message, MESSAGE_LENGTH)
    current = steps[-1].step if steps else Step.CONFIRM_BINARIES
    phase = TaskPhase.VERIFYING if current in {Step.AWAIT_NODE_STATUS, Step.VERIFY, COMMIT} else TaskPhase.RUNNING
    waits = current is Step.AWAIT_NODE_STATUS
    what = "the new kubelet runs; waiting until the API server shows it in the Node's status" if waits else current
    return phase, Reason.PROGRESSING, f"{plan.from_version} to {plan.to_version}: {what}"


def _held(held: Record) -> str:
    """Describe why a run waits, and the action that a person must take."""
    remedy = held.known_reason.remedy
    how = "with the shield up" if held.step is Step.ARM_DEAD_MAN else "with the kubelet fenced"
    rewriting = f"waiting {how}: {held.error}"
    return f"{shorten(rewriting, MESSAGE_LENGTH - len(remedy) - 2)}; {remedy}"


def _ending(plan: RunPlan, summary: RunReport, *, rewrote: bool) -> tuple[TaskPhase, str, str]:
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
            if manifests := _sentence(left_manifests(plan, upgraded=True)):
                message = f"{message}; {manifests}"
            return TaskPhase.SUCCEEDED, Reason.SUCCEEDED, message
        case Outcome.UPGRADED if summary.rebooted:
            message = f"kubelet {plan.to_version} runs, but the node was rebooted before the run was over: {restarts}"
            return TaskPhase.FAILED, Reason.NODE_REBOOTED, message
        case Outcome.UPGRADED:
            message = f"kubelet {plan.to_version} runs, but {restarts}"
            return TaskPhase.FAILED, Reason.CONTAINER_RESTARTED, message
        case Outcome.ROLLED_BACK if not rewrote and _never_got_quiet(summary):
            message = f"kubelet {plan.from_version} runs again, nothing restarted and no hash was rewritten: "
            return TaskPhase.REFUSED, summary.reason, f"{message}{summary.message}"
        case Outcome.ROLLED_BACK:
            restarted = (restarts or _none_restarted(summary)) if summary.looked else _NOT_KNOWN
            if came := _came(summary):
                restarted = f"{restarted}; {came}"
            if summary.recreated:
                restarted = f"{restarted}, replaced on request: {named(summary.recreated, NAMED)}"
            if summary.with_runtime:
                restarted = f"{restarted}; ended{_WITH_RUNTIME}{named(summary.with_runtime, NAMED)}"
            message = f"rolled back to {plan.from_version}; {restarted}. Cause: {summary.message}"
            return TaskPhase.ROLLED_BACK, summary.reason, message
        case Outcome.DEGRADED:
            remedy = Reason.ROLLBACK_FAILED.remedy
            return TaskPhase.ROLLBACK_FAILED, Reason.ROLLBACK_FAILED, f"{summary.message}; {remedy}"


def _none_restarted(summary: RunReport) -> str:
    return "none that ran before restarted" if _came(summary) else "nothing restarted"


def _came(summary: RunReport) -> str:
    """Name the containers of which nobody has promised anything, and which the old kubelet does not recognise."""
    fates = (("have ended or restarted", summary.unrecognised_ended), ("may still restart", summary.unrecognised))
    said = " and ".join(f"{fate}: {named(labels, NAMED)}" for fate, labels in fates if labels)
    return f"containers added or changed after planning {said}" if said and summary.looked else ""


def _never_got_quiet(summary: RunReport) -> bool:
    """Report whether a run was turned back since pods came or went, and changed nothing."""
    changed = summary.restarted or summary.recreated or summary.rebooted or not summary.looked
    return summary.reason is Reason.INVENTORY_CHANGED and not changed


def _unchanged(summary: RunReport) -> str:
    others = (
        ("replaced on request", summary.recreated),
        ("ended by themselves or with their pod", summary.ended),
    )
    rewriting = [f"{how}: {named(names, NAMED)}" for how, names in others if names]
    before = summary.ended_before
    gone = f"; ended before the kubelet was stopped: {named(before, NAMED)}" if before else ""
    if changes := summary.owner_changes:
        gone = f"{gone}; changed by their owners: {named(tuple(map(str, changes)), NAMED)}"
    if summary.same == summary.baseline:
        return f"all {summary.baseline} containers are the same instances{gone}"
    if summary.with_runtime:
        rewriting.append(f"of these{_WITH_RUNTIME}{named(summary.with_runtime, NAMED)}")
    the_others = f", the others {'; '.join(rewriting)}" if rewriting else ""
    return f"{summary.same} of {summary.baseline} containers are the same instances{the_others}{gone}"


def _stale_sockets(plan: RunPlan, journal: Journal, summary: RunReport) -> str:
    """Name the pods that have the runtime's former socket mounted, from before its restart."""
    if journal.first(Step.RESTART_RUNTIME, Mark.DOING) is None or not plan.rewrites():
        return ""
    began_again = {*summary.ended, *summary.changed, *summary.listed}
    holders = (c for c in plan.containers if c.sockets and not c.expendable and c.label not in began_again)
    pods = tuple(dict.fromkeys(str(container.pod) for container in holders))
    return f"; restart these pods, which have the runtime's former socket mounted: {named(pods, NAMED)}" if pods else ""


def _restarts(summary: RunReport) -> str | None:
    """Return what changed; only the first few are named, so that the cause after them is not truncated."""
    if not summary.listed and not summary.restarted:
        return None
    count = f"{summary.restarted} of {summary.baseline} containers restarted"
    if summary.restarted > summary.baseline:  # pods without a running container have lost their sandboxes
        count = f"{summary.restarted} containers and sandboxes restarted, {summary.baseline} containers ran before"
    return f"{count}, changed: {named(summary.listed, NAMED)}"


def _steps(journal: Journal, earlier: Sequence[Journal]) -> tuple[StepStatus, ...]:
    """Return the steps; the kubelet's stop starts with the first attempt that stopped it."""
    steps = {step: status for step in Step if (status := _step(journal, step)) is not None}
    stops = [status for each in earlier if (status := _step(each, Step.STOP_KUBELET)) is not None]
    if stops:
        stop = steps.get(Step.STOP_KUBELET, stops[-1])
        steps[Step.STOP_KUBELET] = replace(stop, started_at=stops[0].started_at)
    return tuple(steps[step] for step in Step if step in steps)


def _between(earlier: Sequence[Journal], last: Journal) -> Iterator[BetweenAttempts]:
    """An attempt that is turned back before the stop ends no interval: the old kubelet runs on.

    It does so as well after a last attempt that was turned back, untouched, because pods had come or gone.
    """
    journals = (*earlier, last)
    for number, ended in enumerate(journals, 1):
        if ended.finished is not None and (ended is not last or _left_untouched(last)):
            stops = (_step(journal, Step.STOP_KUBELET) for journal in journals[number:])
            until = next((stop.started_at for stop in stops if stop is not None), None)
            yield BetweenAttempts(since=_moment(ended.finished), until=until)


def _left_untouched(journal: Journal) -> bool:
    return is_worth_another(journal) and not _rewrote(journal)


def _rewrote(journal: Journal) -> bool:
    return journal.first(Step.REWRITE_HASHES, Mark.DOING) is not None


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
    return parse_time(record.at)


def kubelet_status(plan: RunPlan, summary: RunReport | None) -> KubeletStatus:
    """Return the kubelet before and after the run."""
    before = KubeletBinary(version=plan.from_version, sha256=plan.swap.before, path=plan.swap.path)
    upgraded = summary is not None and summary.outcome is Outcome.UPGRADED
    after = KubeletBinary(version=plan.to_version, sha256=plan.swap.after, path=plan.swap.path) if upgraded else None
    return KubeletStatus(
        before=before,
        after=after,
        down_seconds=None if summary is None else summary.down_seconds,
        files=tuple(FileChange(path=f.path, before=f.before, after=f.after) for f in plan.exchanged if upgraded),
        package=_package(plan) if upgraded else None,
    )


def _package(plan: RunPlan) -> KubeletPackage | None:
    if (package := plan.package) is None:
        return None
    return KubeletPackage(
        manager=package.manager,
        name=shorten(package.name, LABEL_LENGTH),
        version=shorten(package.version, LABEL_LENGTH),
        held=package.held or plan.holds_package,
        held_by_us=plan.holds_package and not package.held,
    )


def runtime_status(plan: RunPlan) -> RuntimeStatus:
    """Return the runtime that the run was planned for."""
    name, _, version = plan.runtime.partition(" ")
    return RuntimeStatus(name=name, version=version)


def _shield(plan: RunPlan, journal: Journal) -> ShieldReport:
    if plan.shield is not None:
        ready = (journal.payload(Step.RAISE_SHIELD) or {}).get("ready")
        if ready is False:
            return ShieldReport(state=ShieldState.UNAVAILABLE, detail="the shield's process did not answer")
        raised = journal.first(Step.RAISE_SHIELD, Mark.DONE) is not None
        return ShieldReport(state=ShieldState.RAISED if raised else None)
    obstacle = next((each.detail for each in plan.cautions if each.reason is Reason.SHIELD_UNAVAILABLE), None)
    if obstacle is None:
        return ShieldReport(state=ShieldState.OFF)
    return ShieldReport(state=ShieldState.UNAVAILABLE, detail=shorten(obstacle))


def _containers(plan: RunPlan, summary: RunReport | None, last: RunReport | None) -> ContainerCounts:
    """Count containers.

    Of those that ended before the kubelet was stopped, only such are listed that nobody has watched since, since they
    did not run then. The others are watched like everything else, and the API shows when they ended before.
    """
    running = [container.label for container in plan.baseline.running()]
    baseline = len(running)
    if summary is None or last is None:
        return ContainerCounts(baseline=baseline)
    watched = frozenset(last.ended_before).intersection(running)
    earlier = (label for label in summary.ended_before if label not in watched)
    ended = tuple(dict.fromkeys((*summary.ended, *earlier)))
    if not summary.looked:
        return ContainerCounts(baseline=summary.baseline, rewritten=summary.rewritten, unknown=summary.baseline)
    return ContainerCounts(
        baseline=summary.baseline,
        rewritten=summary.rewritten,
        unchanged=summary.same,
        restarted=summary.restarted,
        restarted_list=summary.listed,
        recreated=len(summary.recreated),
        recreated_list=summary.recreated[:CONTAINERS_LISTED],
        owner_changes=summary.owner_changes,
        ended=len(ended),
        ended_list=ended[:CONTAINERS_LISTED],
    )


def planned_manifests(pins: Pins) -> tuple[StaticPodManifest, ...]:
    """Return the manifests with the changes that a run would make."""
    changed = (
        StaticPodManifest(path=pin.path, uid=ManifestUid.REMOVED if pin.removes else ManifestUid.ADDED)
        for pin in pins.pins
    )
    return _sorted((*changed, *(StaticPodManifest(path=path, uid=ManifestUid.KEPT) for path in pins.kept)))


def left_manifests(plan: RunPlan, *, upgraded: bool) -> tuple[StaticPodManifest, ...]:
    """Return the manifests as a finished run left them; one that rolled back has restored all of them."""
    if upgraded:
        return planned_manifests(Pins(pins=plan.pins, kept=plan.pinned))
    kept = (*(pin.path for pin in plan.pins if pin.removes), *plan.pinned)
    return _sorted(tuple(StaticPodManifest(path=path, uid=ManifestUid.KEPT) for path in kept))


def _sentence(manifests: tuple[StaticPodManifest, ...]) -> str:
    """Return a note about the manifests that name a UID; empty if none does."""
    paths = tuple(each.path for each in manifests if each.uid is not ManifestUid.REMOVED)
    if not paths:
        return ""
    return (
        f"metadata.uid in {counted(len(paths), 'static pod manifest')} ({named(paths, 3)}) keeps "
        "the running pod: remove it with your next edit, or the edit has no effect"
    )


def _sorted(manifests: tuple[StaticPodManifest, ...]) -> tuple[StaticPodManifest, ...]:
    return tuple(sorted(manifests, key=lambda each: each.path))[:CONTAINERS_LISTED]
