"""The proof of what was done to one node, from its NodeUpgradeTask alone."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from itertools import zip_longest
from typing import Any

from rich.console import RenderableType, group

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import TaskAction
from nodeupgrade.api.task.status import KubeletBinary, KubeletPackage, StepResult, StepStatus, TaskStatus
from nodeupgrade.api.values import Verdict
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import Text, stacked
from nodeupgrade.cli.reports.account import account
from nodeupgrade.cli.screens.formatting import (
    BAD,
    BUSY,
    GOOD,
    NOTHING,
    UIDS,
    Columns,
    Said,
    about,
    coloured,
    facts,
    heading,
    lasting,
    since,
    spaced,
    to_the_second,
)
from nodeupgrade.node.own_directories import STATE_DIRECTORY

RUNS = STATE_DIRECTORY / "runs"
"""Directory on the node with one directory for each run: plan, journal, before-images."""

_UNDONE = frozenset({StepResult.FAILED, StepResult.UNDOING, StepResult.UNDONE})


def document(task: Task) -> Json:
    """Return the proof as JSON: what was requested, reported and judged, with the duration of each step."""
    spec = to_json(task.spec)
    steps = [{**to_json(step), "seconds": _seconds(step)} for step in task.reported.steps]
    return {
        "node": task.name,
        "nodeUID": task.spec.node_uid,
        "upgrade": task.spec.upgrade_ref.name,
        "runID": task.spec.run_id,
        "action": task.spec.action.value,
        "fromVersion": task.spec.from_version,
        "toVersion": task.spec.to_version,
        "artifact": spec["artifact"],
        "cordon": spec["cordon"],
        "report": {**to_json(task.reported), "steps": steps},
        "seconds": dict(account(task)),
        "verdict": to_json(task.verdict),
        "history": spec["history"],
        "journal": journal(task) if steps else None,
    }


def journal(task: Task) -> str:
    """Return the path of the run's journal on the node."""
    return f"{RUNS}/{task.spec.run_id}"


def _steps(reported: tuple[StepStatus, ...]) -> RenderableType:
    """Draw the steps of a run with their times."""
    drawn = Columns("STEP", "RESULT", "STARTED", "SECONDS", "DETAIL", spare=("STARTED", "SECONDS"))
    for step, after in zip_longest(reported, reported[1:]):
        seconds = _seconds(step)
        repeated = after is not None and after.detail == step.detail  # every step that is undone repeats the cause
        drawn.add_row(
            step.name,
            Text(step.result.value, BAD if step.result in _UNDONE else ""),
            NOTHING if step.started_at is None else to_the_second(step.started_at),
            NOTHING if seconds is None else f"{seconds:.1f}",
            NOTHING if repeated else step.detail or NOTHING,
        )
    return drawn


def _history(task: Task) -> RenderableType:
    """Draw how earlier runs on the node ended."""
    drawn = Columns("UPGRADE", "FROM", "TO", "RESULT", "TIME", spare=("TIME", "FROM"))
    for run in task.spec.history:
        when = NOTHING if run.time is None else to_the_second(run.time)
        drawn.add_row(run.upgrade, run.from_version, run.to_version, coloured(run.result.value), when)
    return drawn


@group()
def proof(task: Task, now: datetime) -> Iterator[RenderableType]:
    """Draw the proof for people."""
    report = task.reported
    if task.spec.action is TaskAction.WAIT and task.verdict is None:
        yield Text.assemble(
            (task.name, "bold"), f" waits for its turn in {task.spec.upgrade_ref.name}; nothing was done."
        )
    else:
        title = f"run {task.spec.run_id} of {task.spec.upgrade_ref.name}"
        yield Text.assemble((task.name, "bold"), f", {title}: ", coloured(report.phase.value))
    yield from run(task, now, Said())
    if report.steps:
        yield heading("On the node")
        yield Text(f"{journal(task)} holds the plan and the journal; only root can read it.")


def run(task: Task, now: datetime, said: Said, *known: tuple[str, str | Text]) -> Iterator[RenderableType]:
    """Draw the run that the task reports, after other facts that are ``known`` about it."""
    report = task.reported
    if task.spec.action is not TaskAction.WAIT or task.verdict is not None:
        yield facts(*known, *_facts(task, now, said))
    elif known:
        yield facts(*known)
    if report.steps:
        yield heading("Steps")
        yield _steps(report.steps)
    if report.hazards:
        yield heading("Hazards")
        yield _hazards(report)
    if report.preview is not None and report.preview.would_restart_list:
        yield heading("What a plain kubelet swap would restart")
        forecasts = Columns("CONTAINER", "WHY")
        for forecast in report.preview.would_restart_list:
            forecasts.add_row(forecast.container, forecast.why)
        yield forecasts
    if task.spec.history:
        yield heading("Earlier runs")
        yield _history(task)


def _hazards(report: TaskStatus) -> RenderableType:
    """Draw what forbids the node's upgrade, and what deserves attention."""
    drawn = Columns("", "REASON", "POD", "DETAIL", spare=("POD",))
    for hazard in report.hazards:
        how = "accepted" if hazard.accepted else "warning"
        weight = Text(how, BUSY) if hazard.warning else Text("forbids", BAD)
        lines = (hazard.detail, *about(hazard.pods, hazard.owners, hazard.check, accepted=hazard.accepted))
        drawn.add_row(weight, hazard.reason, hazard.pod or NOTHING, stacked(filter(None, lines)) or NOTHING)
    return drawn


def _facts(task: Task, now: datetime, said: Said) -> Iterator[tuple[str, str | Text]]:
    report, verdict = task.reported, task.verdict
    if report.message:
        message = said.once(report.message)
        yield "Node reports", f"{report.reason}: {message}" if report.reason else message
    if verdict is None:
        yield "Control plane", "has not reached a verdict yet"
    else:
        good = verdict.outcome in {Verdict.SUCCEEDED, Verdict.PRECHECKED}
        outcome = f"{verdict.outcome.value} ({verdict.reason.value}): {said.once(verdict.message)}"
        yield "Control plane", Text(outcome, GOOD if good else BAD)
        yield "Verdict at", _moment(verdict.decided_at, now)
    yield "Kubelet before", _binary(report.kubelet.before, task.spec.from_version)
    yield "Kubelet after", _binary(report.kubelet.after, NOTHING)
    for file in report.kubelet.files:
        yield "File replaced", f"{file.path}, sha256 {file.before or NOTHING} before, {file.after} after"
    for manifest in report.manifests:
        yield "Manifest", f"{manifest.path}: {UIDS[manifest.uid]}"
    if report.kubelet.package is not None:
        yield "Package", _package(report.kubelet.package)
    if report.kubelet.down_seconds is not None:
        yield "Without kubelet", f"{report.kubelet.down_seconds:.1f} seconds"
    if report.runtime.name:
        yield "Runtime", f"{report.runtime.name} {report.runtime.version}".strip()
    yield from _containers(task)
    yield from _readiness(report)
    if report.started_at:
        ended = f", ended {to_the_second(report.finished_at)}" if report.finished_at else ""
        took = lasting((report.finished_at or now) - report.started_at)
        yield "Started", f"{to_the_second(report.started_at)}{ended} ({took})"
    if parts := account(task):
        shares = ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts.items())
        yield "Seconds", f"{shares}; {sum(parts.values()):.1f} in all"
    yield "Cordon", _cordon(task)


def _readiness(report: TaskStatus) -> Iterator[tuple[str, str | Text]]:
    guard, flaps = report.guard, report.containers.readiness_flaps
    if guard.state is not None:
        yield "Readiness guard", spaced(guard.state.value) + (f": {guard.detail}" if guard.detail else "")
    shield = report.shield
    if shield.state is not None:
        yield "Shield", spaced(shield.state.value) + (f": {shield.detail}" if shield.detail else "")
    if flaps:
        yield "Unready", Text(f"meanwhile, although their containers ran on: {', '.join(flaps)}", BUSY)


def _containers(task: Task) -> Iterator[tuple[str, str | Text]]:
    counts, verdict = task.reported.containers, task.verdict
    if not counts.baseline:
        return
    if not task.reported.phase.terminal:
        yield "Containers", f"{counts.baseline} before"
        return
    text = f"{counts.baseline} before: {counts.unchanged} the same instances after, {counts.rewritten} hashes rewritten"
    yield "Containers", text
    if counts.unknown:
        unknown = f"of {counted(counts.unknown, 'container')}: the runtime did not answer at the end"
        yield "Not known", Text(unknown, BAD)
    restarted = verdict.restarted if verdict else counts.restarted
    listed = (verdict.restarted_list if verdict else ()) or counts.restarted_list
    if restarted or not counts.unknown:
        number = counted(restarted, "container") if restarted else "none"
        yield "Restarted", Text(number, BAD if restarted else GOOD)
    for name in listed:
        yield "", Text(name, BAD)
    if counts.recreated:
        named = ", ".join(counts.recreated_list)
        yield "Replaced", f"{counted(counts.recreated, 'container')} of static pods, on request: {named}"
    if counts.ended_list:
        left = counts.ended - len(counts.ended_list)
        more = f" and {left} more" if left > 0 else ""
        yield "Ended", f"by themselves or with their pod: {', '.join(counts.ended_list)}{more}"
    if counts.owner_changes:
        yield "Changed", f"by their owners: {', '.join(map(str, counts.owner_changes))}"


def _cordon(task: Task) -> str:
    """Return who cordoned the node, for the run or before it."""
    record = task.spec.cordon
    if record.was_unschedulable:
        return "of another user or tool, from before the run; left as it is"
    return "by nodeupgrade, for the run" if record.by_us else "none"


def _binary(binary: KubeletBinary | None, otherwise: str) -> str:
    if binary is None:
        return otherwise
    digest = f", sha256 {binary.sha256}" if binary.sha256 else ""
    return f"{binary.version or NOTHING} at {binary.path or NOTHING}{digest}"


def _package(package: KubeletPackage) -> str:
    by_us = " by this run" if package.held_by_us else ""
    held = f"held{by_us}" if package.held else "not held"
    name = f"{package.name} {package.version}".rstrip()
    return f"{name} ({package.manager}) owns the program, which now differs from the package; it is {held}"


def _moment(moment: datetime | None, now: datetime) -> str:
    return NOTHING if moment is None else f"{to_the_second(moment)} ({since(moment, now)} ago)"


def _seconds(step: StepStatus) -> float | None:
    if step.started_at is None or step.finished_at is None:
        return None
    return round((step.finished_at - step.started_at).total_seconds(), 3)


DIGEST = "digest"
"""The member that holds the digest, which does not cover itself."""


def sealed(document: Json) -> Json:
    """Return a document with its digest: what ``jq -cS 'del(.digest)' | sha256sum`` computes from it."""
    plain: Json = {name: _plain(value) for name, value in document.items() if name != DIGEST}
    line = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    return {**plain, DIGEST: f"sha256:{hashlib.sha256(line.encode()).hexdigest()}"}


def _plain(value: Any) -> Any:
    """Write whole numbers without a fraction, as jq does."""
    match value:
        case dict():
            return {name: _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value
