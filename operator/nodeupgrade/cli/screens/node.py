"""Draw what is known about one node."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Group, RenderableType, group

from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.task.object import Task
from nodeupgrade.api.task.spec import HookResult, HookRun, TaskAction
from nodeupgrade.api.upgrade.status import ConditionType, UpgradeStatus
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import Text
from nodeupgrade.cli.reports.node import NodeMembership, NodeReport
from nodeupgrade.cli.screens import evidence
from nodeupgrade.cli.screens.formatting import (
    BAD,
    BUSY,
    FAINT,
    GOOD,
    NOTHING,
    Columns,
    Said,
    coloured,
    facts,
    heading,
    spaced,
    to_the_second,
)
from nodeupgrade.fleet.decide.node_state import Place

EVENTS_SHOWN = 10


@group()
def node_report(shown: NodeReport, now: datetime) -> Iterator[RenderableType]:
    """Draw the node, its place in a rollout, its run and its events."""
    node = shown.node
    ready = Text("Ready", GOOD) if node.ready else Text("not Ready", BAD)
    yield Text.assemble((node.name, "bold"), f": kubelet {node.kubelet_version}, ", ready, f", {shown.cordon}")
    yield facts(("Runtime", node.runtime or NOTHING), ("Platform", node.platform), *_rollouts(shown))
    said = Said(*((shown.membership.message,) if shown.membership is not None else ()))
    if shown.membership is not None and shown.upgrade is not None:
        yield heading(f"In {shown.upgrade.name}")
        yield facts(*_membership(shown.membership, shown.upgrade.status, shown.task))
    if (task := shown.task) is not None:
        yield heading("Its task")
        yield from evidence.run(task, now, said, *_task_facts(shown, task))
    if shown.events:
        yield heading("Events")
        yield _events(shown, said)


def _rollouts(shown: NodeReport) -> Iterator[tuple[str, str | Text]]:
    if shown.upgrade is None:
        yield "Rollout", "no NodeUpgrade selects this node, and none has claimed it"
    elif shown.upgrade.problem:
        yield "Rollout", Text(f"{shown.upgrade.name} is not accepted: {shown.upgrade.problem}", BAD)
    elif shown.membership is None:
        yield (
            "Rollout",
            f"the node is not a member of {shown.upgrade.name}: it is not selected, is excluded, or joined too late",
        )
    if len(shown.selected_by) > 1:
        yield "Wanted by", f"{', '.join(shown.selected_by)}; the oldest goes first"


def _membership(member: NodeMembership, status: UpgradeStatus, task: Task | None) -> Iterator[tuple[str, str | Text]]:
    yield (
        "Wave",
        f"{member.wave} ({member.wave_number} of {member.waves}), node {member.order} of {member.wave_size} in it",
    )
    verdict = task.verdict if task is not None and member.place is Place.FINISHED else None
    state = member.place.value if verdict is None else verdict.outcome.value
    yield "State", Text(spaced(state), BAD if member.place is Place.REFUSED else "")
    if member.place is Place.IN_FLIGHT and status.holds(ConditionType.IMPEDED):
        impeded = status.condition(ConditionType.IMPEDED)
        yield "Impeded", Text(f"{impeded.reason}: {impeded.message}", BAD)
    if member.waits:
        yield "Waits for", Text(member.waits, BUSY)
    if member.reason:
        yield "Because", f"{member.reason}: {member.message}" if member.message else member.reason
        if member.check:
            yield "Found by", member.check
        known = known_reason(member.reason)
        if member.place is Place.FINISHED and known is not None and known is not Reason.SUCCEEDED:
            yield "Do", known.remedy


def _task_facts(shown: NodeReport, task: Task) -> Iterator[tuple[str, str | Text]]:
    spec, waits = task.spec, task.spec.action is TaskAction.WAIT
    yield "Claimed by", f"{spec.upgrade_ref.name}, to go from {spec.from_version} to {spec.to_version}"
    asked = f"{spec.action.value}, run {spec.run_id}" if spec.run_id and not waits else spec.action.value
    yield "Action", f"{asked} ({spec.action_reason}: {spec.action_message})" if spec.action_reason else asked
    if not waits or task.reported.started_at:
        yield "Phase", coloured(task.reported.phase.value)
    if spec.deadline and task.verdict is None:
        yield "Deadline", to_the_second(spec.deadline)
    if shown.recorded is not None:
        yield "Recorded", f"{counted(shown.recorded, 'container')} before the run, to compare with afterwards"
    for hook in spec.hooks:
        yield f"Hook {hook.phase.value.lower()}", _hook(hook)


def _hook(hook: HookRun) -> Text:
    if hook.result is None:
        return Text(f"{hook.template}: not over yet")
    said = f": {hook.message}" if hook.message else ""
    return Text(f"{hook.template}: {hook.result.value}{said}", GOOD if hook.result is HookResult.SUCCEEDED else BAD)


def _events(shown: NodeReport, said: Said) -> RenderableType:
    drawn = Columns("LAST", "TIMES", "REASON", "MESSAGE", spare=("TIMES", "LAST"))
    for each in shown.events[-EVENTS_SHOWN:]:
        drawn.add_row(
            each.time, str(each.count), Text(each.reason, BAD if each.warning else ""), said.once(each.message)
        )
    if len(shown.events) > EVENTS_SHOWN:
        return Group(Text(f"{len(shown.events) - EVENTS_SHOWN} earlier ones are left out", FAINT), drawn)
    return drawn
