"""What the page of a rollout says, in the order in which a change ticket is read. Bounded for any size of fleet."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from nodeupgrade import __version__
from nodeupgrade.api.reasons import Reason, known_reason
from nodeupgrade.api.upgrade.artifact import Artifact
from nodeupgrade.api.upgrade.status import ConditionType, WaveStatus
from nodeupgrade.api.upgrade.waves import ApprovalPolicy
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.reports.rollout import NodeRecord, RolloutReport
from nodeupgrade.cli.screens.formatting import BAD, GOOD, NOTHING, lasting, to_the_second
from nodeupgrade.cli.screens.status import counts_in_words
from nodeupgrade.findings.finding import named

NODES_LISTED = 5000
"""Nodes with a row of their own; those that failed come first."""
FAILURES_TOLD = 100
"""Failed nodes whose message is repeated; of all others, the reason stands in their row."""
OTHERS_LISTED = 100
"""Rows of each of the other tables, and names in one line."""


class State(str):
    """A phase, a state or a result in the API's own word, which has a colour."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A number to be seen first."""

    label: str
    value: str
    style: str = ""  # a colour as in ``formatting``


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table; what is not known is ``NOTHING``."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page."""

    title: str
    notes: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    table: Table | None = None
    after: tuple[str, ...] = ()  # notes after the table
    picture: bool = False  # whether the picture of the rollout belongs here


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Everything that the page says, apart from the picture."""

    title: str
    state: State
    written: str  # when, and by which program
    notices: tuple[str, ...]
    figures: tuple[Figure, ...]
    sections: tuple[Section, ...]


def page(report: RolloutReport) -> Page:
    """Return the page of a rollout."""
    sections = (_summary, _binaries, _waves, _course, _failures, _restarted, _earlier, _nodes)
    return Page(
        title=f"Kubelet upgrade {report.upgrade.name}",
        state=State(report.seen.status.phase or "Pending"),
        written=f"As of {to_the_second(report.now)}, by nodeupgrade {__version__}. All times are UTC.",
        notices=tuple(_notices(report)),
        figures=tuple(_figures(report)),
        sections=tuple(made for section in sections if (made := section(report)) is not None),
    )


def _notices(report: RolloutReport) -> Iterator[str]:
    status, upgrade = report.seen.status, report.upgrade
    if upgrade.problem:
        yield f"The spec cannot be read: {upgrade.problem}"
    if not report.seen.ended:
        counts = status.counts
        done, left = counts.total - counts.pending - counts.in_progress, counts.pending + counts.in_progress
        where = f"{counted(done, 'node')} done, {left} to come" if counts.total else "its nodes are not planned yet"
        yield f"This rollout has not ended: {where}. What follows will change."
    if unread := tuple(report.unreadable):
        yield (
            "Use the version of nodeupgrade that the cluster runs: "
            f"{counted(len(unread), 'NodeUpgradeTask')} cannot be read, and what they record is missing here: "
            f"{named(unread, OTHERS_LISTED)} ({unread[0]}: {report.unreadable[unread[0]]})."
        )
    if report.unrecorded:
        yield (
            f"Of {counted(report.unrecorded, 'node')} only the number is known: their tasks were deleted, or cannot be "
            "read, or later rollouts have taken them over."
        )


def _figures(report: RolloutReport) -> Iterator[Figure]:
    status = report.seen.status
    counts, containers = status.counts, status.containers
    reached, down = counts.succeeded + (status.skips or {}).get(Reason.ALREADY_AT_TARGET, 0), report.down_seconds
    yield Figure(label=f"nodes run {report.seen.version}", value=f"{reached} of {counts.total}")
    bad = counts.all_failed + counts.refused
    yield Figure(label="failed or refused", value=str(bad), style=BAD if bad else GOOD)
    restarted = containers.restarted
    yield Figure(label="containers restarted", value=str(restarted), style=BAD if restarted else GOOD)
    yield Figure(
        label="longest without a kubelet", value=NOTHING if down is None else f"{_number(down[1].down_seconds)} s"
    )
    if status.started_at is not None:
        took = (status.completed_at or report.now) - status.started_at
        yield Figure(label="took" if status.completed_at else "so far", value=lasting(took))


def _summary(report: RolloutReport) -> Section:
    return Section(title="Summary", facts=tuple(_facts(report)))


def _facts(report: RolloutReport) -> Iterator[tuple[str, str]]:
    upgrade, status, ready = report.upgrade, report.seen.status, report.seen.status.condition(ConditionType.READY)
    yield "Version", report.seen.version
    if upgrade.spec is not None:
        yield from _artifact(upgrade.spec.artifact)
    yield "Nodes", f"{status.counts.total}: {counts_in_words(status.counts)}"
    if status.skips:
        yield "Skipped", ", ".join(f"{number} {reason}" for reason, number in sorted(status.skips.items()))
    if ready.reason:
        yield "State", f"{ready.reason}: {ready.message}"
    yield "Started", _moment(status.started_at)
    yield "Ended", _moment(status.completed_at)
    totals = status.containers
    if totals.baseline:
        replaced = f", {totals.recreated} of static pods replaced on request" if totals.recreated else ""
        verified = f"{totals.baseline} verified: {totals.unchanged} the same instances, {totals.restarted} restarted"
        yield "Containers", f"{verified}{replaced}; {totals.rewritten} hashes rewritten"
    if (down := report.down_seconds) is not None:
        median, longest = down
        yield (
            "No kubelet",
            f"{_number(median)} s in the median, at most {_number(longest.down_seconds)} s ({longest.node})",
        )
    if status.accepted:
        listed = (f"{check} on {counted(nodes, 'node')}" for check, nodes in sorted(status.accepted.items()))
        yield "Accepted", ", ".join(listed)
    if status.ended_by_check:
        yield "Ended by", f"health check {status.ended_by_check}"


def _artifact(artifact: Artifact) -> Iterator[tuple[str, str]]:
    if (image := artifact.image) is not None:
        digest = f", sha256 {image.sha256}" if image.sha256 else ""
        yield "Kubelet from", f"{image.ref}, {image.path}{digest}"
    for platform, download in sorted((artifact.platforms or {}).items()):
        yield f"Kubelet for {platform}", f"{download.url}, sha256 {download.sha256}"
    for platform, file in sorted((artifact.pre_staged or {}).items()):
        yield f"Kubelet for {platform}", f"{file.path} on the node, sha256 {file.sha256}"


def _binaries(report: RolloutReport) -> Section | None:
    most = sorted(report.binaries.items(), key=lambda each: (each[0].after, -each[1], each[0].version, each[0].sha256))
    rows = tuple(
        ("after" if each.after else "before", each.version or NOTHING, each.sha256, str(nodes)) for each, nodes in most
    )
    return _listed("Kubelets that nodes reported", ("When", "Version", "SHA-256", "Nodes"), rows)


def _waves(report: RolloutReport) -> Section | None:
    spec = report.upgrade.spec
    manual = {wave.name for wave in spec.waves if wave.approval is ApprovalPolicy.MANUAL} if spec else set[str]()
    headings = ("Wave", "State", "Upgraded", "Others", "Started", "Ended", "Took", "Approved")
    rows = tuple(_wave(each, report.now, manual=each.name in manual) for each in report.seen.status.waves)
    return _listed("Waves", headings, rows)


def _wave(wave: WaveStatus, now: datetime, *, manual: bool) -> tuple[str, ...]:
    numbers = ((wave.failed, "failed"), (wave.refused, "refused"), (wave.skipped, "skipped"))
    others = [f"{number} {word}" for number, word in (*numbers, (wave.in_progress, "in flight")) if number]
    took = None if wave.started_at is None else (wave.completed_at or now) - wave.started_at
    return (
        wave.name,
        State(wave.state.value),
        f"{wave.succeeded} of {wave.total}",
        ", ".join(others) or NOTHING,
        _moment(wave.started_at),
        _moment(wave.completed_at),
        _length(took),
        _approval(wave, manual=manual),
    )


def _approval(wave: WaveStatus, *, manual: bool) -> str:
    if wave.approved_by is None and wave.approved_at is None:
        return "not yet" if manual else "not required"
    return f"{wave.approved_by or NOTHING}, {_moment(wave.approved_at)}"


def _course(report: RolloutReport) -> Section | None:
    if report.seen.status.started_at is None:
        return None
    return Section(title="Over time", picture=True)


def _failures(report: RolloutReport) -> Section | None:
    failed = sorted((each for each in report.nodes if each.failed), key=lambda each: (each.reason, each.node))
    if not failed:
        return None
    causes = ((reason, tuple(nodes)) for reason, nodes in groupby(failed, key=lambda each: each.reason))
    rows = tuple(
        (each.node, State(each.state), each.reason or NOTHING, each.step or NOTHING, each.message or NOTHING)
        for each in failed[:FAILURES_TOLD]
    )
    return Section(
        title="Failed or refused",
        facts=tuple(
            (f"{reason or '(no reason)'}, {counted(len(nodes), 'node')}", _cause(reason)) for reason, nodes in causes
        ),
        table=Table(headings=("Node", "Result", "Reason", "Step", "Cause"), rows=rows),
        after=_left_out(len(failed) - len(rows), "node", "with its reason in the table of nodes"),
    )


def _cause(reason: str) -> str:
    known = known_reason(reason)
    return NOTHING if known is None else f"{known.meaning}; {known.remedy}"


def _restarted(report: RolloutReport) -> Section | None:
    rows = tuple(
        (each.node, str(each.restarted), ", ".join(each.restarted_list) or NOTHING)
        for each in report.nodes
        if each.restarted
    )
    return _listed("Containers that restarted", ("Node", "Number", "Which"), rows)


def _earlier(report: RolloutReport) -> Section | None:
    rows = tuple(
        (each.node, _moment(each.run.time), State(each.run.result.value), each.run.reason, str(each.run.restarted))
        for each in report.earlier
    )
    return _listed("Earlier runs of nodes tried again", ("Node", "Ended", "Result", "Reason", "Restarted"), rows)


def _nodes(report: RolloutReport) -> Section | None:
    if not report.nodes:
        return None
    listed = report.nodes
    if len(listed) > NODES_LISTED:
        listed = tuple(sorted(listed, key=lambda each: not each.failed))[:NODES_LISTED]
    headings = ("Node", "Wave", "Result", "Reason", "From", "To", "Started", "Took")
    counts = ("No kubelet (s)", "Containers", "Rewritten", "Restarted")
    left = len(report.nodes) - len(listed)
    return Section(
        title="Nodes",
        table=Table(headings=(*headings, *counts), rows=tuple(map(_node, listed))),
        after=_left_out(left, "node", "as `nodeupgrade evidence NODE` shows"),
    )


def _node(each: NodeRecord) -> tuple[str, ...]:
    said = "" if each.reason == each.state else each.reason
    numbers = (each.containers, each.rewritten, each.restarted)
    return (
        each.node,
        each.wave or NOTHING,
        State(each.state),
        said or NOTHING,
        each.from_version or NOTHING,
        each.to_version or NOTHING,
        _moment(each.started_at),
        _length(each.took),
        _number(each.down_seconds),
        *(NOTHING if number is None else str(number) for number in numbers),
    )


def _listed(title: str, headings: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> Section | None:
    """Return a section with a table of at most OTHERS_LISTED rows; None if there are none."""
    if not rows:
        return None
    more = _left_out(len(rows) - OTHERS_LISTED, "row")
    return Section(title=title, table=Table(headings=headings, rows=rows[:OTHERS_LISTED]), after=more)


def _left_out(number: int, noun: str, where: str = "") -> tuple[str, ...]:
    return (f"and {counted(number, f'more {noun}')}{f', {where}' if where else ''}",) if number > 0 else ()


def _moment(moment: datetime | None) -> str:
    return NOTHING if moment is None else to_the_second(moment).removesuffix("Z").replace("T", " ")


def _length(length: timedelta | None) -> str:
    return NOTHING if length is None else lasting(length)


def _number(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:.1f}"
