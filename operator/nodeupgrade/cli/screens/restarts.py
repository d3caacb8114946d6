"""Draw what steps would restart: as a table, Markdown, CSV or JSON."""

import csv as csv_format
import io
from collections.abc import Iterator, Mapping

from rich.console import RenderableType, group

from nodeupgrade.api.json import Json
from nodeupgrade.api.printable import printable
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import Text
from nodeupgrade.cli.reports.restart_counts import Count, RestartCounts, StepCounts
from nodeupgrade.cli.screens.formatting import FAINT, Columns, heading
from nodeupgrade.cli.screens.markdown import escaped, markdown_table
from nodeupgrade.findings.finding import named
from nodeupgrade.kubelet.version_skew import is_too_old_for_server
from nodeupgrade.kubelethash import KubeletVersion

SHOWN = 10
"""Entries of a group that people see; CSV and JSON have all of them."""

_FORMULA = ("=", "+", "-", "@")
_CSV = ("to", "from", "node", "namespace", "workload", "reason", "containers", "pods")


def _groups(step: StepCounts) -> tuple[tuple[str, Mapping[str, Count]], ...]:
    return (
        ("reason", step.reasons),
        ("namespace", step.namespaces),
        ("workload", step.workloads),
        ("node", step.nodes),
    )


def _most(group_: Mapping[str, Count]) -> list[tuple[str, Count]]:
    """Return those that would restart, the most first."""
    found = [(name, count) for name, count in group_.items() if count.restarts]
    return sorted(found, key=lambda each: (-each[1].restarts, each[0]))


def _target(version: KubeletVersion) -> str:
    return str(version) if version.patch or version.suffix else version.series


def _started(step: StepCounts) -> str:
    return ", ".join(f"{minor} ({nodes})" for minor, nodes in sorted(step.started.items(), key=_by_minor)) or "-"


def _by_minor(started: tuple[str, int]) -> KubeletVersion:
    return KubeletVersion.parse(started[0])


def _headline(counts: RestartCounts) -> str:
    restarts, examined = counts.restarts, counted(counts.pods, "pod")
    if not restarts:
        return f"No container would restart: {examined} examined."
    twice = "; a container counts in each step that restarts it" if len(counts.steps) > 1 else ""
    return f"A plain kubelet swap would restart {counted(restarts, 'container')}: {examined} examined{twice}."


def _rows(counts: RestartCounts) -> Iterator[tuple[str, ...]]:
    for step in counts.steps:
        total, nodes = step.total, step.started.total()
        numbers = (total.containers, total.restarts, total.pods)
        yield (_target(step.to), _started(step), str(nodes) if nodes else "-", *map(str, numbers))


@group()
def table(counts: RestartCounts) -> Iterator[RenderableType]:
    """Draw it for people."""
    yield Text(_headline(counts), "bold")
    steps = Columns("TO", "FROM (NODES)", "NODES", "CONTAINERS", "RESTART", "PODS", spare=("NODES", "FROM (NODES)"))
    for row in _rows(counts):
        steps.add_row(*row)
    yield steps
    for step in counts.steps:
        for name, entries in _groups(step):
            most = _most(entries)
            if not most:
                continue
            yield heading(f"To {_target(step.to)}, by {name}")
            drawn = Columns("RESTART", "PODS", name.upper())
            for label, count in most[:SHOWN]:
                drawn.add_row(str(count.restarts), str(count.pods), label)
            yield drawn
            if len(most) > SHOWN:
                yield Text(f"and {len(most) - SHOWN} more, which -o json and -o csv list", FAINT)
    if skews := list(skewed(counts)):
        yield heading("Version skew")
        yield from map(Text, skews)
    problems = list(unexamined(counts))
    if problems:
        yield heading("Not examined")
        yield from map(Text, problems)
    yield heading("What this cannot show")
    yield from map(Text, unseen(counts))


def unexamined(counts: RestartCounts) -> Iterator[str]:
    """Yield what was not examined, and why."""
    for node, why in sorted(counts.unknown_nodes.items())[:SHOWN]:
        yield f"node {node}: {why}"
    if len(counts.unknown_nodes) > SHOWN:
        yield f"and {counted(len(counts.unknown_nodes) - SHOWN, 'more node')}"
    if newer := counts.newer_nodes:
        listed = named([f"{node} ({version})" for node, version in sorted(newer.items())], SHOWN)
        yield f"{counted(len(newer), 'node')} newer than that already: {listed}"
    yield from (f"pod {problem}" for problem in counts.problems[:SHOWN])
    if counts.failed > SHOWN:
        yield f"and {counted(counts.failed - SHOWN, 'more pod')}"
    if counts.astray:
        yield f"{counted(counts.astray, 'pod')} on nodes that have no Node object"


def skewed(counts: RestartCounts) -> Iterator[str]:
    """Yield the steps that are larger than Kubernetes supports between an API server and its kubelets."""
    for step in counts.steps:
        nodes = sum(
            number
            for minor, number in step.started.items()
            if is_too_old_for_server(KubeletVersion.parse(minor), step.to)
        )
        if nodes:
            yield (
                f"The API server has to be at {_target(step.to)} before its kubelets, and is then too new for "
                f"{counted(nodes, 'node')}. Put a step in between, each with the API server first."
            )


def unseen(counts: RestartCounts) -> Iterator[str]:
    """Yield what the API does not show, each with the command that does."""
    if counts.static:
        many = counted(counts.static, "static pod")
        yield f"{many}: the manifest on the node decides about the UID; a NodeUpgrade with action: Plan reads it."
    if counts.templates:
        yield (
            f"{counted(counts.templates, 'template')}: what admission adds to pods is not in it; give pods instead, "
            "as from: kubectl get pods --all-namespaces -o json."
        )
    yield "Drift: whether containers still carry the hash of their present spec shows on the node: nodeupgrade verify."
    yield "Admission: whether an agent pod would be admitted shows after installing: nodeupgrade check --node NODE."


def document(counts: RestartCounts) -> Json:
    """Return it as JSON, with every entry of every group."""
    return {
        "restarts": counts.restarts,
        "pods": counts.pods,
        "staticPods": counts.static,
        "templates": counts.templates,
        "steps": [_step_document(step) for step in counts.steps],
        "notExamined": {
            "nodes": [{"node": node, "problem": why} for node, why in sorted(counts.unknown_nodes.items())],
            "newerNodes": [{"node": node, "version": version} for node, version in sorted(counts.newer_nodes.items())],
            "pods": counts.failed,
            "problems": counts.problems,
            "podsWithoutNode": counts.astray,
        },
        "cannotShow": list(unseen(counts)),
    }


def _step_document(step: StepCounts) -> Json:
    total: Json = {"containers": step.total.containers, "restarts": step.total.restarts, "pods": step.total.pods}
    grouped = {
        f"{name}s": [{name: label, "restarts": count.restarts, "pods": count.pods} for label, count in _most(entries)]
        for name, entries in _groups(step)
    }
    return {"to": str(step.to), "from": dict(step.started), **total, **grouped}


def csv(counts: RestartCounts) -> str:
    """Return a line for every node, namespace, workload and reason with restarts."""
    written = io.StringIO()
    writer = csv_format.writer(written, lineterminator="\n")
    writer.writerow(_CSV)
    for step in counts.steps:
        for row, count in step.rows.items():
            cells = (row.node, row.namespace, row.workload, row.reason)
            writer.writerow(
                [_target(step.to), row.started, *map(_cell, cells), count.restarts, count.pods],
            )
    return written.getvalue()


def _cell(text: str) -> str:
    """Return a text as no spreadsheet takes it for a formula."""
    safe = printable(text)
    return f"'{safe}" if safe.startswith(_FORMULA) else safe


def markdown(counts: RestartCounts) -> str:
    """Return it as Markdown, for a change ticket."""
    return "".join(f"{line}\n" for line in _markdown(counts))


def _markdown(counts: RestartCounts) -> Iterator[str]:
    yield f"**{escaped(_headline(counts))}**"
    yield ""
    yield from markdown_table(("To", "From (nodes)", "Nodes", "Containers", "Restart", "Pods"), _rows(counts))
    for step in counts.steps:
        for name, entries in _groups(step):
            if most := _most(entries):
                yield f"\n### To {_target(step.to)}, by {name}\n"
                rows = ((str(count.restarts), str(count.pods), label) for label, count in most[:SHOWN])
                yield from markdown_table(("Restart", "Pods", name.capitalize()), rows)
                if len(most) > SHOWN:
                    yield f"\nand {len(most) - SHOWN} more"
    sections = {"Version skew": skewed, "Not examined": unexamined, "What this cannot show": unseen}
    for title, lines in ((title, section(counts)) for title, section in sections.items()):
        if listed := [f"- {escaped(line)}" for line in lines]:
            yield f"\n### {title}\n"
            yield from listed
