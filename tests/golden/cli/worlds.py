"""Whether the objects of a fixture can exist side by side: pure functions that list what contradicts what.

What a NodeUpgrade reports is held against the planner itself; what a node reports, against its own numbers.
"""

import asyncio
import re
from collections.abc import Iterator
from datetime import datetime

from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.task.object import Task, parse_task
from nodeupgrade.api.task.status import StepResult, TaskPhase, TaskStatus
from nodeupgrade.api.task.step import Step
from nodeupgrade.api.upgrade.object import parse_upgrade
from nodeupgrade.api.upgrade.status import UpgradeStatus, WaveState
from nodeupgrade.api.values import Verdict
from nodeupgrade.cli.inputs.fleet import read_fleet
from nodeupgrade.cluster.kube_api import TASKS, UPGRADES, KubeApi
from nodeupgrade.fleet.actions import WriteStatus
from nodeupgrade.fleet.decide.planner import plan

_SAYS = {
    r"(\d+) of (\d+) containers are the same": ("unchanged", "baseline"),
    r"all (\d+) containers are the same": ("baseline",),
    r"(\d+) hashes rewritten": ("rewritten",),
    r"(\d+) of (\d+) containers restarted": ("restarted", "baseline"),
    r"(\d+) containers? counted": ("unchanged",),
}
"""Numbers in messages, and what they must be."""


async def told_by_the_operator(kube: KubeApi, name: str, now: datetime) -> Json:
    """Return a NodeUpgrade as the operator would leave it, were it to look now."""
    body = await kube.get(UPGRADES, name)
    fleet = await read_fleet(kube, parse_upgrade(body))
    written = [to_json(action.status) for action in plan(fleet, now).actions if isinstance(action, WriteStatus)]
    return {**body, "status": written[0]} if written else body


def of_world(kube: KubeApi, now: datetime) -> Iterator[str]:
    """List what is impossible about the NodeUpgrades and tasks of a cluster."""
    for body in asyncio.run(kube.list(UPGRADES)):
        upgrade = parse_upgrade(body)
        yield from (f"{upgrade.name}: {wrong}" for wrong in of_rollout(upgrade.status))
        told = parse_upgrade(asyncio.run(told_by_the_operator(kube, upgrade.name, now)))
        have, want = to_json(upgrade.status), to_json(told.status)
        differing = [key for key in want if key != "acceptedSpecDigest" and have.get(key) != want[key]]
        yield from (f"{upgrade.name}: {key} is {have.get(key)}, not {want[key]}" for key in differing)
    for task in map(parse_task, asyncio.run(kube.list(TASKS))):
        yield from (f"{task.name}: {wrong}" for wrong in of_task(task))


def of_rollout(status: UpgradeStatus) -> Iterator[str]:
    """List what is impossible about the status of a NodeUpgrade by itself."""
    counts, totals, waves = status.counts, status.containers, status.waves
    failed = counts.failed + counts.rolled_back + counts.rollback_failed
    done = counts.succeeded + counts.skipped
    if counts.total != done + counts.pending + counts.in_progress + counts.refused + failed:
        yield "the counts do not add up"
    if sum((status.skips or {}).values()) != counts.skipped:
        yield "the skips do not add up"
    if waves and [sum(wave.total for wave in waves), sum(wave.failed for wave in waves)] != [counts.total, failed]:
        yield "the waves do not add up"
    if totals.unchanged + totals.restarted > totals.baseline or totals.rewritten > totals.baseline:
        yield "more containers came out than went in"
    if len(status.failures) < min(failed, 20):
        yield "a failed node is not listed"
    if status.phase == "Succeeded" and (done != counts.total or status.completed_at is None):
        yield "it succeeded, and is not done"
    for wave in waves:
        over = wave.succeeded + wave.skipped + wave.failed + wave.refused
        if wave.state is WaveState.COMPLETED and over != wave.total:
            yield f"wave {wave.name} is completed, and {wave.total - over} of its nodes are not"
        if status.phase == "Succeeded" and wave.state is not WaveState.COMPLETED:
            yield f"it succeeded, and wave {wave.name} is {wave.state}"


def of_task(task: Task) -> Iterator[str]:
    """List what is impossible about a NodeUpgradeTask by itself."""
    report, counts = task.reported, task.reported.containers
    verdict = task.verdict
    for message in (report.message, verdict.message if verdict else ""):
        for pattern, names in _SAYS.items():
            for found in re.finditer(pattern, message):
                want = tuple(getattr(counts, name) for name in names)
                if tuple(map(int, found.groups())) != want:
                    yield f"{found.group()!r}, and {', '.join(names)}: {want}"
    if report.phase.terminal and counts.baseline != counts.unchanged + counts.restarted + len(counts.ended_list):
        yield "the containers do not add up"
    if report.phase in {TaskPhase.ROLLED_BACK, TaskPhase.REFUSED} and counts.rewritten:
        yield "nothing was upgraded, and hashes are rewritten"
    if verdict is not None and verdict.outcome.value != report.phase.value:
        yield f"the node says {report.phase}, and the verdict is {verdict.outcome}"
    if verdict is not None and verdict.outcome is not Verdict.SUCCEEDED and report.message not in verdict.message:
        yield "the verdict does not repeat what the node said"
    yield from _of_steps(report)


def _of_steps(report: TaskStatus) -> Iterator[str]:
    if not report.steps:
        return
    names = [step.name for step in report.steps]
    if names != list(Step)[: len(names)]:
        yield f"the steps are {', '.join(names)}"
    if report.phase is TaskPhase.SUCCEEDED and {step.result for step in report.steps} != {StepResult.DONE}:
        yield "it succeeded, and a step is not done"
    began = [step.started_at for step in report.steps]
    if began != sorted(moment for moment in began if moment is not None):
        yield "the steps do not follow one another"
    ended = [step.finished_at for step in report.steps if step.finished_at is not None]
    if ended != sorted(ended, reverse=report.phase is TaskPhase.ROLLED_BACK):
        yield "the steps do not end in order"
    if report.finished_at is not None and max(ended) > report.finished_at:
        yield "a step ends after the run"
