"""The failures of a rollout by reason, with what to do about each."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby

from rich.console import Group, RenderableType, group

from nodeupgrade.api.upgrade.status import Condition, ConditionType, Counts, WaveState, WaveStatus
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import Text, stacked
from nodeupgrade.cli.program import called
from nodeupgrade.cli.reports.failures import Failure
from nodeupgrade.cli.reports.overview import Flying, Overview
from nodeupgrade.cli.reports.tree import Branch, tree
from nodeupgrade.cli.screens.formatting import (
    BAD,
    BAR_WIDTH,
    BUSY,
    FAINT,
    GOOD,
    MARKS,
    NOTHING,
    SHORT_BAR,
    Columns,
    Said,
    ahead,
    bar,
    coloured,
    facts,
    heading,
    is_bad,
    lasting,
    mark,
    since,
    spaced,
    to_the_second,
)
from nodeupgrade.findings.finding import named


@group()
def by_reason(name: str, found: tuple[Failure, ...], now: datetime) -> Iterator[RenderableType]:
    """Draw failures grouped by reason."""
    yield Text(f"Failed or refused: {counted(len(found), 'node')} of {name}")
    for reason, failed in groupby(found, key=lambda failure: failure.reason):
        nodes = tuple(failed)
        yield Text()
        yield Text.assemble((reason or "(no reason given)", f"bold {BAD}"), f": {counted(len(nodes), 'node')}")
        if known := nodes[0].explanation:
            yield facts(("Means", known.meaning), ("Do", known.remedy))
        drawn = Columns("NODE", "RESULT", "WAVE", "STEP", "AGO", "MESSAGE", spare=("AGO", "WAVE", "STEP"))
        for each in nodes:
            message = each.message
            if each.restarted:
                message = f"{message.removesuffix('.')}; restarted: {', '.join(each.restarted)}"
            row = (each.node, each.result, each.wave, each.step)
            told = stacked(filter(None, (message, each.check and f"found by {each.check}")))
            drawn.add_row(*(cell or NOTHING for cell in row), since(each.time, now), told)
        yield drawn


FAILURES_SHOWN = 5
FLYING_SHOWN = 20


def many(overviews: Iterable[Overview], now: datetime) -> RenderableType:
    """Draw all rollouts, one line each, and below them the nodes in flight."""
    listed = tuple(overviews)
    flying = [(each.upgrade.name, node) for each in listed for node in each.flying]
    return Group(_rollouts(listed, now), *((heading("In flight"), _flying(flying)) if flying else ()))


def _rollouts(overviews: Iterable[Overview], now: datetime) -> RenderableType:
    headings = ("NAME", "VERSION", "PHASE", "PROGRESS", "FAILED", "RESTARTS", "WAVE", "AGE", "ENDS IN", "REASON")
    drawn = Columns(*headings, spare=("WAVE", "VERSION", "ENDS IN", "FAILED", "RESTARTS"))
    for each in overviews:
        status = each.status
        wave = status.current_wave
        drawn.add_row(
            each.upgrade.name,
            each.version,
            coloured(status.phase or "Pending"),
            progress(status.counts, SHORT_BAR),
            alarming(status.counts.all_failed),
            alarming(status.containers.restarted),
            NOTHING if wave is None else f"{wave.name} ({wave.index}/{wave.of})",
            since(each.upgrade.created_at, now),
            NOTHING if each.estimate is None else lasting(each.estimate.completion - now),
            status.condition(ConditionType.READY).reason or "NotSeenYet",
        )
    return drawn


def _flying(nodes: list[tuple[str, Flying]]) -> RenderableType:
    drawn = Columns("NODE", "PHASE", "STEP", "TOOK", "WAVE", "ROLLOUT", spare=("WAVE", "TOOK", "STEP"))
    for rollout, each in nodes[:FLYING_SHOWN]:
        took = NOTHING if each.seconds is None else lasting(timedelta(seconds=each.seconds))
        drawn.add_row(each.node, coloured(each.phase), each.step or NOTHING, took, each.wave or NOTHING, rollout)
    if (more := len(nodes) - FLYING_SHOWN) > 0:
        drawn.add_row(f"and {more} more")
    return drawn


def line(seen: Overview) -> str:
    """Describe the state of a rollout in one line, for logs."""
    status, wave = seen.status, seen.status.current_wave
    parts = [f"{status.phase or 'Pending'} {status.progress}".strip()]
    if wave is not None:
        parts.append(f"wave {wave.name} ({wave.index} of {wave.of})")
    if seen.flying:
        parts.append(f"in flight: {', '.join(f'{each.node} {spaced(each.phase)}' for each in seen.flying)}")
    if failed := status.counts.all_failed:
        parts.append(f"{counted(failed, 'node')} failed")
    if status.containers.restarted:
        parts.append(f"{counted(status.containers.restarted, 'container')} restarted")
    ready = status.condition(ConditionType.READY)
    return "; ".join(parts) + (f" – {ready.reason}: {ready.message}" if ready.reason else "")


@group()
def one(seen: Overview, now: datetime, *, verbose: bool = False) -> Iterator[RenderableType]:
    """Draw one rollout in detail; ``verbose`` adds every node that was read, its steps, and all conditions."""
    status = seen.status
    yield from _headline(seen, now)
    if branches := tree(seen, now, whole=verbose):
        yield Text()
        yield _tree(branches)
    said = Said(status.condition(ConditionType.READY).message)
    if status.failures:
        yield heading("Last failures")
        yield _failures(seen, now, said)
    if shown := [each for each in status.conditions if verbose or is_bad(each)]:
        yield heading("Conditions")
        yield _conditions(shown, now, said)


def _headline(seen: Overview, now: datetime) -> Iterator[RenderableType]:
    upgrade, status, ready = seen.upgrade, seen.status, seen.status.condition(ConditionType.READY)
    yield Text.assemble((upgrade.name, "bold"), f" to {seen.version}: ", coloured(status.phase or "Pending"))
    if upgrade.problem:
        yield Text(f"The spec cannot be read: {upgrade.problem}", BAD)
    if status.observed_generation < upgrade.generation:
        never = not status.observed_generation
        told = "No operator has seen this object yet" if never else "The operator has not seen the latest change yet"
        yield Text(f"{told}; what follows may be older. If this lasts: {called()} check", BUSY)
    yield facts(*_facts(seen, ready, now))


def _facts(seen: Overview, ready: Condition, now: datetime) -> Iterator[tuple[str, str | Text]]:
    upgrade, status, totals = seen.upgrade, seen.status, seen.status.containers
    yield "Nodes", Text.assemble(progress(status.counts), f"  {counts_in_words(status.counts)}")
    if ready.reason:
        yield "Why", f"{ready.reason}: {ready.message}"
    if upgrade.paused_by_annotation:
        yield "Paused", Text(f"by the annotation nodeupgrade.dev/pause; `{called()} resume` removes it", BUSY)
    if upgrade.deleting:
        yield "Deletion", Text("requested; nodes in flight are finished first", BUSY)
    if totals.baseline:
        restarted = Text(f"{totals.restarted} restarted", BAD if totals.restarted else GOOD)
        verified = f"{totals.baseline} verified: {totals.unchanged} the same instances, "
        recreated = f", {totals.recreated} of static pods replaced on request" if totals.recreated else ""
        yield "Containers", Text.assemble(verified, restarted, recreated, f"; {totals.rewritten} hashes rewritten")
    if preview := status.preview:
        refused = f"{preview.refused} would be refused"
        yield "Checked", f"{counted(preview.checked, 'node')}, {refused}; {preview.rewritten} hashes to rewrite"
        yield "Plain swap", f"would restart {counted(preview.would_restart, 'container')}"
    if status.skips:
        yield "Skipped", ", ".join(_skipped(seen, *each) for each in sorted(status.skips.items()))
    if status.started_at:
        until = status.completed_at or now
        ended = f", ended {to_the_second(status.completed_at)}" if status.completed_at else ""
        yield "Started", f"{to_the_second(status.started_at)}{ended} ({lasting(until - status.started_at)})"
    if status.current_wave and status.current_wave.soak_until:
        yield "Soaking", f"until {ahead(status.current_wave.soak_until, now)}"
    if status.next_window:
        yield "Next window", ahead(status.next_window, now)
    if seen.estimate:
        rate = f"at the rate so far, {seen.estimate.nodes_per_hour:g} nodes an hour"
        yield "Expected end", f"{ahead(seen.estimate.completion, now)}, {rate}"


def _skipped(seen: Overview, reason: str, number: int) -> str:
    nodes = f" ({named(seen.skipped[reason])})" if reason in seen.skipped else ""
    return f"{number} {reason}{nodes}"


def counts_in_words(counts: Counts) -> str:
    """Return the numbers of nodes that are not zero."""
    numbers = (
        (counts.succeeded, "succeeded"),
        (counts.skipped, "skipped"),
        (counts.in_progress, "in flight"),
        (counts.pending, "pending"),
        (counts.refused, "refused"),
        (counts.failed, "failed"),
        (counts.rolled_back, "rolled back"),
        (counts.rollback_failed, "could not be rolled back"),
    )
    return ", ".join(f"{number} {word}" for number, word in numbers if number) or "none yet"


def alarming(number: int) -> Text:
    """Return a number that should be zero."""
    return Text(str(number), BAD if number else "")


def _failures(seen: Overview, now: datetime, said: Said) -> RenderableType:
    drawn = Columns("NODE", "STEP", "REASON", "AGO", "MESSAGE", spare=("AGO", "STEP"))
    for failure in seen.status.failures[:FAILURES_SHOWN]:
        step, when = failure.step or NOTHING, since(failure.time, now)
        drawn.add_row(failure.node, step, failure.reason, when, said.once(failure.message))
    if len(seen.status.failures) > FAILURES_SHOWN:
        return Group(drawn, Text(f"All of them: {called()} failures {seen.upgrade.name}", FAINT))
    return drawn


def _conditions(listed: Iterable[Condition], now: datetime, said: Said) -> RenderableType:
    drawn = Columns("CONDITION", "STATUS", "REASON", "FOR", "MESSAGE", spare=("FOR", "REASON"))
    for each in listed:
        status = Text(each.status, BAD if is_bad(each) else "")
        drawn.add_row(each.type, status, each.reason, since(each.last_transition_time, now), said.once(each.message))
    return drawn


def progress(counts: Counts | WaveStatus, width: int = BAR_WIDTH) -> Text:
    """Draw the progress of a rollout or a wave as a bar with numbers."""
    done = counts.succeeded + counts.skipped
    failed = counts.failed if isinstance(counts, WaveStatus) else counts.all_failed
    drawn = bar(done, counts.in_progress, failed + counts.refused, counts.total, width)
    return Text.assemble(drawn, f" {done}/{counts.total}")


_FORK, _LAST, _LINE, _GAP = "├─ ", "└─ ", "│  ", "   "


def _tree(branches: Iterable[Branch]) -> RenderableType:
    """Draw the waves with their nodes and steps, and what the marks and bars mean."""
    drawn = Columns("WAVE, NODE, STEP", "STATE", "NODES", "TOOK", "ABOUT", spare=("NODES", "TOOK"))
    for guide, branch in _lines(tuple(branches), ""):
        wave = branch.wave
        # A wave that is over, and none of whose nodes runs the version, looks as its nodes do.
        bad = wave is not None and wave.state is WaveState.COMPLETED and _all_bad(wave)
        drawn.add_row(
            Text.assemble((guide, FAINT), mark("Failed" if bad else branch.state), f" {branch.name}"),
            Text(branch.state, BAD) if bad else coloured(branch.state),
            Text() if branch.wave is None else progress(branch.wave, SHORT_BAR),
            NOTHING if branch.took is None else lasting(branch.took),
            branch.about,
        )
    return Group(drawn, _legend())


def _all_bad(wave: WaveStatus) -> bool:
    return bool(wave.failed + wave.refused) and not wave.succeeded + wave.skipped


def _legend() -> Text:
    """Return the meaning of marks and bars."""
    meanings = (("done", GOOD, "█"), ("in flight", BUSY, "▒"), ("failed or refused", BAD, "▚"), ("to come", "", ""))
    drawn = Text()
    for words, style, filling in meanings:
        drawn.append(f"{MARKS[style]} {filling}".strip(), style).append(f" {words}   ", FAINT)
    drawn.rstrip()
    return drawn


def _lines(branches: tuple[Branch, ...], before: str) -> Iterator[tuple[str, Branch]]:
    for number, branch in enumerate(branches, 1):
        last = number == len(branches)
        yield before + (_LAST if last else _FORK), branch
        yield from _lines(branch.branches, before + (_GAP if last else _LINE))
