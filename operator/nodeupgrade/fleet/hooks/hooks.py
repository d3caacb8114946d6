"""The hooks of a run: Jobs before anything on a node is touched, and others once its run has ended.

A run carries its hooks in its task, so an edit of the NodeUpgrade does not change them. A Job is named by its run, so
a restarted operator finds it; a deleted Job is created again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from nodeupgrade.api.reasons import Reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import HookPhase, HookResult, HookRun, TaskAction
from nodeupgrade.api.task.status import TaskPhase
from nodeupgrade.api.upgrade.hooks import Hooks
from nodeupgrade.api.wording import sentence
from nodeupgrade.fleet.actions import Abort, GiveUp, NodeAction, RecordHook, StartHook, Wait
from nodeupgrade.fleet.setbacks import Setback

LOOK_AGAIN = timedelta(seconds=2)
"""Interval at which a running Job is read; Jobs are not watched."""

CREATED_WITHIN = timedelta(minutes=3)
"""How long the creation of a Job is retried while the API server rejects it."""

STOPS_WITHIN = timedelta(minutes=1)
"""How long after its timeout a Job may take to report that it was stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookJob:
    """The Job of a hook."""

    name: str
    created_at: datetime
    result: HookResult | None = None  # how it ended; None as long as it has not
    message: str = ""  # why it failed


@dataclass(frozen=True, slots=True, kw_only=True)
class HookJobs:
    """The Jobs of the hooks of one run."""

    jobs: Mapping[tuple[HookPhase, str], HookJob] = field(default_factory=dict)  # by phase and template of the hook
    unknown: str = ""  # why they cannot be read; empty if they can

    def of(self, hook: HookRun) -> HookJob | None:
        """Return the Job of a hook."""
        return self.jobs.get((hook.phase, hook.template))


def of_run(hooks: Hooks) -> tuple[HookRun, ...]:
    """Return the hooks of a run that begins."""
    return tuple(
        HookRun(phase=phase, template=hook.template, timeout_seconds=max(1, int(hook.timeout.total_seconds())))
        for phase, each in ((HookPhase.BEFORE, hooks.before), (HookPhase.AFTER, hooks.after))
        for hook in each
    )


def time_before(hooks: Hooks) -> timedelta:
    """Return the longest time that the hooks before a run may take."""
    return sum((hook.timeout for hook in hooks.before), timedelta())


def before(task: Task, jobs: HookJobs, refused: Setback | None, now: datetime) -> NodeAction | None:
    """Return what comes before the agent is started; None if nothing does.

    The first hook that fails ends the run, before anything was touched. A run that is taken up again does not repeat
    its hooks. ``refused`` are the failed attempts to create a Job for this node.
    """
    if task.spec.action is not TaskAction.UPGRADE or task.spec.resumes or task.status.run_id == task.spec.run_id:
        return None
    for hook in (each for each in task.spec.hooks if each.phase is HookPhase.BEFORE):
        if hook.result is None:
            return _carry_out(task, hook, jobs, refused, now)
        if hook.result is not HookResult.SUCCEEDED:
            because = f"hook {hook.template}: {hook.message}"
            if not task.untouched:
                return Abort(task=task, reason=Reason.HOOK_FAILED, message=f"node {task.name}: {because}")
            message = sentence(Reason.HOOK_FAILED, f"node {task.name} is untouched: {because}")
            return GiveUp(task=task, phase=TaskPhase.REFUSED, reason=Reason.HOOK_FAILED, message=message)
    return None


def after(task: Task, jobs: HookJobs, refused: Setback | None, now: datetime) -> NodeAction | None:
    """Return what comes before the slot of a run that has ended is free; None if nothing does.

    If the run was called off while a hook before it runs, that hook is waited for: its effects must not come last.
    """
    for hook in task.spec.hooks:
        if hook.result is None and (hook.phase is HookPhase.AFTER or jobs.of(hook) is not None):
            return _carry_out(task, hook, jobs, refused, now)
    return None


def may_have_begun(task: Task, *, gone: bool) -> Iterator[HookRun]:
    """Yield the hooks of a node in flight that have not ended and may have been started.

    If its Node is ``gone``, its run is over without a verdict.
    """
    over = gone or task.verdict is not None
    return (hook for hook in task.spec.hooks if hook.result is None and (over or hook.phase is HookPhase.BEFORE))


def _carry_out(task: Task, hook: HookRun, jobs: HookJobs, refused: Setback | None, now: datetime) -> NodeAction:
    """Start the Job of a hook, wait for it, and record how it ended."""
    node, name = task.name, f"hook {hook.template} of node {task.name}"
    if jobs.unknown:
        message = f"{name} waits: {jobs.unknown}"
        return Wait(node=node, reason=Reason.WRITE_REFUSED, message=message)
    job = jobs.of(hook)
    if job is None:
        if refused is not None and now > refused.since + CREATED_WITHIN:
            return _record(task, hook, HookResult.FAILED, refused.problem)
        message = f"{name} runs {hook.phase.value.lower()} its upgrade"
        return StartHook(task=task, hook=hook, reason=Reason.PROGRESSING, message=message)
    if job.result is not None:
        return _record(task, hook, job.result, f"Job {job.name}: {job.message}" if job.message else "")
    if now > job.created_at + timedelta(seconds=hook.timeout_seconds) + STOPS_WITHIN:
        return _record(task, hook, HookResult.TIMED_OUT, f"Job {job.name} says nothing about its end")
    message = f"{name} is not over yet (Job {job.name})"
    return Wait(node=node, reason=Reason.PROGRESSING, message=message, until=now + LOOK_AGAIN)


def _record(task: Task, hook: HookRun, result: HookResult, problem: str) -> RecordHook:
    good = result is HookResult.SUCCEEDED
    said = f"hook {hook.template} of node {task.name} " + ("succeeded" if good else f"failed: {problem}")
    message = said if good else sentence(Reason.HOOK_FAILED, said)
    reason = Reason.PROGRESSING if good else Reason.HOOK_FAILED
    return RecordHook(task=task, hook=hook, result=result, problem=problem, reason=reason, message=message)
