"""Draw a plan on a screen, or return it as JSON."""

from collections import Counter
from collections.abc import Iterator

from rich.console import RenderableType, group

from nodeupgrade.api.duration import render_duration
from nodeupgrade.api.json import Json, to_json
from nodeupgrade.api.reasons import Reason, Severity
from nodeupgrade.api.runtimes import treatment
from nodeupgrade.api.upgrade.spec import RolloutAction
from nodeupgrade.api.upgrade.waves import ApprovalPolicy, Wave
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import Text, stacked
from nodeupgrade.cli.reports.plan import UPGRADED, PlanReport, RuntimeInUse
from nodeupgrade.cli.reports.restarts import EraForecast
from nodeupgrade.cli.reports.todo import Todo
from nodeupgrade.cli.screens.formatting import (
    BAD,
    BUSY,
    FAINT,
    GOOD,
    NOTHING,
    UIDS,
    Columns,
    about,
    ahead,
    facts,
    heading,
    lasting,
    to_the_second,
)
from nodeupgrade.findings.finding import named
from nodeupgrade.fleet.decide.node_state import NodeState, Place

CAUSES_SHOWN = 5
NODES_NAMED = 8
RUNTIME_NODES_NAMED = 3
RESTARTS_NAMED = 20


def document(report: PlanReport) -> Json:
    """Return it as JSON, with every node."""
    return {
        "name": report.name,
        "version": report.spec.version,
        "action": report.action.value,
        "onCluster": report.on_cluster,
        "unselected": report.unselected,
        "openNow": report.open_now,
        "opens": report.opens,
        "first": report.first,
        "provided": report.provided,
        "waits": report.waits,
        "expected": report.expected,
        "runtimes": report.runtimes,
        "waves": [{**to_json(terms), **to_json(wave)} for terms, wave in report.waves],
        "eras": report.eras,
        "todo": report.todo,
        "nodes": [_node_document(report, member) for member in report.members],
    }


def _node_document(report: PlanReport, member: NodeState) -> Json:
    node = member.node
    reasoned = member.place in {Place.HELD, Place.SKIPPED, Place.REFUSED, Place.FINISHED}
    known = {"reason": member.reason, "message": member.message} if reasoned else {}
    found = {"forecast": report.forecasts.get(node), "preview": report.previews.get(node)}
    fields = {**known, **found, "hazards": report.hazards.get(node)}
    named = {name: value for name, value in fields.items() if value is not None}
    return {"node": node, "wave": member.wave, "place": member.place, **named}


@group()
def plan(report: PlanReport, *, long: bool) -> Iterator[RenderableType]:
    """Draw it for people; ``long`` adds a line for every node."""
    yield Text.assemble((report.name, "bold"), f" would bring kubelets to {report.spec.version}. Nothing was touched.")
    yield facts(*_facts(report))
    if report.members:
        yield heading("Waves")
        yield _waves(report)
    for title, severity in (("Refused", Severity.REFUSE), ("Skipped", Severity.SKIP), ("Warnings", Severity.WARN)):
        if due := [each for each in report.todo if each.severity == severity.value and not _is_held(each)]:
            yield heading(title)
            yield _todo(due)
    if held := [each for each in report.todo if _is_held(each)]:
        yield heading("Held")
        yield _todo(held)
    if report.eras:
        yield heading("What a plain kubelet swap would restart")
        yield _eras(report.eras)
        yield Text("nodeupgrade rewrites these hashes and pins static pods, so that none of them restarts.", FAINT)
    if report.previews:
        yield heading("Reported by the nodes")
        yield facts(*_previews(report))
    if long:
        yield heading("Nodes")
        yield _nodes(report)


def _facts(report: PlanReport) -> Iterator[tuple[str, str | Text]]:
    if report.action is RolloutAction.PLAN:
        yield "Action", "Plan: nodes are only examined; what follows is as if it were Run"
    members = sum(member.view is not None for member in report.members)  # a name may be misspelt
    cluster = members + report.unselected
    selected = f"{members} of {counted(cluster, 'node')} selected: {len(report.placed(*UPGRADED))} to upgrade"
    numbers = {place: len(report.placed(place)) for place in (Place.HELD, Place.SKIPPED, Place.REFUSED, Place.FINISHED)}
    yield (
        "Nodes",
        ", ".join([selected, *(f"{number} {place.value.lower()}" for place, number in numbers.items() if number)]),
    )
    if len(report.runtimes) > 1:
        yield "Runtimes", "; ".join(map(_runtime, report.runtimes))
    if report.opens is None:
        yield "Windows", Text("none ever opens", BAD)
    elif not report.open_now:
        yield "Windows", Text(f"closed; the next opens {ahead(report.opens, report.now)}", BUSY)
    else:
        yield "Windows", "open now" if report.spec.windows or report.spec.blackouts else "none: at any time"
    if report.first:
        condition = f", if {report.provided}" if report.provided else ""
        yield "First", f"{named(report.first, NODES_NAMED)} would be started at once{condition}"
    elif report.waits:
        yield "First", Text(f"none would be started now: {report.waits}", BUSY)
    yield from _expected(report)
    strategy = report.spec.strategy
    yield (
        "Budgets",
        (f"{strategy.max_concurrent} at a time; stops when {counted_share(str(strategy.failure_threshold))} failed"),
    )


def _expected(report: PlanReport) -> Iterator[tuple[str, str | Text]]:
    expected = report.expected
    if expected is None:
        return
    if expected.end is None or expected.took is None:
        yield "Duration", Text("the windows end before the rollout does", BAD)
        return
    source = f"the median of {counted(expected.runs, 'run')} on record" if expected.runs else "assumed"
    waiting = ", not counting the time until approvals" if _needs_approvals(report) else ""
    of_a_node = f"{lasting(expected.node)} a node ({source})"
    yield "Duration", f"about {lasting(expected.took)}, until {to_the_second(expected.end)}: {of_a_node}{waiting}"


def _needs_approvals(report: PlanReport) -> bool:
    terms = (each for each, wave in report.waves if wave.to_upgrade)
    return any(wave.approval is not ApprovalPolicy.AUTO and wave.name not in report.approvals for wave in terms)


def _runtime(found: RuntimeInUse) -> str:
    nodes = f"{counted(len(found.nodes), 'node')} ({named(found.nodes, RUNTIME_NODES_NAMED)})"
    return f"{found.name or 'unknown'} on {nodes}: {treatment(found.name)}"


def counted_share(share: str) -> str:
    """Format a number or a percentage of nodes."""
    return f"{share} of the nodes" if share.endswith("%") else counted(int(share), "node")


def _waves(report: PlanReport) -> RenderableType:
    drawn = Columns(
        *("#", "WAVE", "NODES", "TO UPGRADE", "HELD", "SKIPPED", "REFUSED", "AT ONCE", "STARTS", "SOAK", "FIRST NODES"),
        spare=("FIRST NODES", "#", "AT ONCE", "SOAK", "HELD", "NODES"),
    )
    for number, (terms, wave) in enumerate(report.waves, 1):
        drawn.add_row(
            str(number),
            terms.name,
            str(wave.total),
            str(wave.to_upgrade),
            Text(str(wave.held), BUSY if wave.held else ""),
            str(wave.skipped),
            Text(str(wave.refused), BAD if wave.refused else ""),
            str(terms.max_concurrent or report.spec.strategy.max_concurrent),
            _begins(report, terms),
            render_duration(terms.soak) if terms.soak else NOTHING,
            named(wave.nodes, 3) or NOTHING,
        )
    return drawn


def _begins(report: PlanReport, terms: Wave) -> str:
    if terms.approval is ApprovalPolicy.AUTO:
        return "automatically"
    return "approved" if terms.name in report.approvals else "after approval"


def _is_held(each: Todo) -> bool:
    return each.reason in {Reason.HELD_BY_ANNOTATION, Reason.HELD_BY_POD}


def _todo(due: list[Todo]) -> RenderableType:
    """Draw everything that is to be done once; ``--nodes`` shows the nodes."""
    drawn = Columns("REASON", "NODES", "PODS", "WHAT TO DO", spare=("PODS",))
    for each in due:
        lines = [
            each.remedy,
            f"for example: {each.example}",
            *about(each.pods, each.owners, each.check, accepted=each.accepted),
        ]
        drawn.add_row(each.reason, str(len(each.nodes)), str(each.pods or NOTHING), stacked(lines))
    return drawn


def _eras(eras: tuple[EraForecast, ...]) -> RenderableType:
    drawn = Columns("FROM", "TO", "NODES", "CONTAINERS", "RESTART", "BECAUSE", spare=("CONTAINERS", "NODES"))
    for each in eras:
        change = (f"{each.from_series} (era {each.from_era})", f"{each.to_series} (era {each.to_era})")
        numbers = (str(each.nodes), str(each.containers), Text(str(each.restarts), BAD if each.restarts else GOOD))
        causes = [f"{number}: {why}" for why, number in each.causes.items()]
        more = [f"and {len(causes) - CAUSES_SHOWN} more reasons"] if len(causes) > CAUSES_SHOWN else []
        unknown = [f"{counted(each.unknown, 'pod')} could not be evaluated; see --nodes"] if each.unknown else []
        none = "no hash changes" if each.containers else "no container runs there"
        drawn.add_row(*change, *numbers, stacked([*causes[:CAUSES_SHOWN], *more, *unknown]) or none)
    return drawn


def _previews(report: PlanReport) -> Iterator[tuple[str, str | Text]]:
    found = report.previews.values()
    yield "Nodes", str(len(found))
    yield "Hashes to rewrite", str(sum(preview.rewritten for preview in found))
    restarts = counted(sum(preview.would_restart for preview in found), "container")
    yield "Would restart", f"{restarts} by a plain swap"
    yield "Static pods pinned", str(sum(preview.static_pods for preview in found))
    manifests = Counter((each.path, each.uid) for preview in found for each in preview.manifests)
    for (path, uid), number in manifests.items():
        yield "Manifest", f"{path} on {counted(number, 'node')}: {UIDS[uid]}"
    if pods := tuple(pod for preview in found for pod in preview.recreated_pods):
        replaced = f"{counted(len(pods), 'static pod')}: {named(pods, RESTARTS_NAMED)}"
        yield "Replaced on request", Text(replaced, BUSY)
    flags = sorted({flag for preview in found for flag in preview.removed_flags})
    yield "Flags removed", ", ".join(flags) or "none"
    if added := sorted({flag for preview in found for flag in preview.added_flags}):
        yield "Flags added", ", ".join(added)
    files = Counter(file.path for preview in found for file in preview.files)
    yield from (("Files replaced", f"{path} on {counted(number, 'node')}") for path, number in files.items())


def _nodes(report: PlanReport) -> RenderableType:
    drawn = Columns("NODE", "WAVE", "STATE", "CONTAINERS", "RESTART", "WHY", spare=("CONTAINERS", "WAVE"))
    for member in report.members:
        expected = report.forecasts.get(member.node)
        numbers = (NOTHING, NOTHING) if expected is None else (str(expected.containers), str(len(expected.restarts)))
        drawn.add_row(member.node, member.wave, member.place.value, *numbers, stacked(_whys(report, member)))
    return drawn


def _whys(report: PlanReport, member: NodeState) -> Iterator[str]:
    if member.message:
        yield f"{member.reason.value}: {member.message}"
    for hazard in report.hazards.get(member.node, ()):
        if hazard.warning:
            how = "accepted" if hazard.accepted else "warning"
            yield f"{hazard.reason} ({how}): {': '.join(filter(None, (hazard.pod, hazard.detail)))}"
    preview, expected = report.previews.get(member.node), report.forecasts.get(member.node)
    for manifest in () if preview is None else preview.manifests:
        yield f"{manifest.path}: {UIDS[manifest.uid]}"
    for file in () if preview is None else preview.files:
        yield f"{file.path} would be replaced (sha256 {_short(file.before)} by {_short(file.after)})"
    if expected is None:
        return
    yield from (f"not known: {problem}" for problem in expected.unknown)
    reasons = dict.fromkeys(restart.why for restart in expected.restarts)
    for why in reasons:
        names = tuple(restart.container for restart in expected.restarts if restart.why == why)
        yield f"{named(names, RESTARTS_NAMED)}: {why}"


def _short(digest: str | None) -> str:
    return "none" if digest is None else f"{digest[:12]}…"
