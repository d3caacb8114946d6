"""`nodeupgrade explain`: what a plain kubelet swap would restart, in a cluster or in the pods of a file."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import click
from rich.progress import Progress

from nodeupgrade.api.json import Json
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.commands.pod_options import Entry, Row, known_versions, named_pods, report
from nodeupgrade.cli.console import console, say, show, write
from nodeupgrade.cli.inputs.cluster import ClusterConnection, cluster_options
from nodeupgrade.cli.inputs.completion import minor_versions
from nodeupgrade.cli.output import in_json
from nodeupgrade.cli.program import NO, OK, CannotError, InputFile, Once, command
from nodeupgrade.cli.reports.restart_counts import RestartCounts, subject_of
from nodeupgrade.cli.reports.restarts import pod_forecast
from nodeupgrade.cli.screens import restarts
from nodeupgrade.cluster.kube_api import NODES, PODS, ExpiredError, KubeApi, Page
from nodeupgrade.kubelethash import HashChange, KubeletVersion, explain_pod

ATTEMPTS = 3
"""How often the pods are read if the API server forgets a list before its last page."""

EACH = ("text", "json", "yaml")
"""Formats with a line or a document for each pod of a file."""
SUMMARIES = ("table", "json", "csv", "markdown")


def _targets(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> tuple[KubeletVersion, ...]:
    return tuple(KubeletVersion.parse(version) for each in value for version in known_versions(context, option, each))


def _started(context: click.Context, option: click.Parameter, value: str | None) -> KubeletVersion | None:
    versions = known_versions(context, option, value or None)
    if len(versions) > 1:
        raise click.BadParameter("specify exactly one version")
    return KubeletVersion.parse(versions[0]) if versions else None


@command(
    "explain",
    "nodeupgrade explain --to 1.34",
    "nodeupgrade explain --to 1.31 --to 1.34 -o markdown > restarts.md",
    "nodeupgrade explain --to 1.34 --fail-on-restart && echo nothing restarts",
    "kubectl get pods -A -o json | nodeupgrade explain --from 1.30 --to 1.33 --pods -",
    "kubectl get nodes,pods -A -o json | nodeupgrade explain --to 1.34 --pods -",
    "helm template . | nodeupgrade explain --from 1.30 --to 1.33 --pods - --fail-on-restart",
    "nodeupgrade explain --from 1.30 --to 1.33 --pods pods.json -o json | jq .restarts",
)
@click.option(
    "--to",
    "targets",
    multiple=True,
    required=True,
    callback=_targets,
    shell_complete=minor_versions,
    metavar="VERSION",
    help="Kubelet version to upgrade to; several are steps, one after the other.",
)
@click.option(
    "--from",
    "started",
    cls=Once,
    callback=_started,
    shell_complete=minor_versions,
    metavar="VERSION",
    help="Kubelet version that runs now, with --pods; Nodes in the file, or in a cluster, say their own.",
)
@click.option(
    "--pods",
    "stream",
    cls=Once,
    type=InputFile(),
    metavar="FILE|-",
    help="Read pods and workloads from a file instead of a cluster: JSON, JSON lines or YAML; '-' is standard input.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "csv", "markdown", "text", "yaml"]),
    help="Output format; text, json and yaml list each pod of --pods.  [default: table; text with --pods and one --to]",
)
@click.option("--fail-on-restart", is_flag=True, help="Exit with 1 if a container would restart.")
@cluster_options
def explain_command(
    connection: ClusterConnection,
    *,
    targets: tuple[KubeletVersion, ...],
    started: KubeletVersion | None,
    stream: TextIO | None,
    output: str | None,
    fail_on_restart: bool,
) -> int:
    """Print which containers would restart if only the kubelet were swapped, and why.

    Reads the nodes and pods of the cluster, in which nothing needs to be installed, and writes nothing. The table has
    totals first, then what restarts by reason, namespace, workload and node; csv has a line for each of their
    combinations. With --pods, nothing is read from a cluster: pods and workloads come from the file, and what is
    neither is passed over. Only running containers count, according to the pod's status; in a pod without a status
    and in a workload's template, all containers count.

    The exit code is 1 if something could not be examined and, with --fail-on-restart, if a container would restart.
    """
    if started is None and list(targets) != sorted(targets):
        raise click.UsageError("give the versions of --to in the order of the steps, oldest first")
    if stream is None:
        counts = _of_cluster(connection, targets, started, output)
    else:
        if started is not None and (output or "text") in EACH and len(targets) == 1:
            return _list_each(stream, started, targets[0], output or "text", fail_on_restart=fail_on_restart)
        if output in {"text", "yaml"} or (output in EACH and started is not None):
            others = ", ".join(each for each in SUMMARIES if each != output)
            raise click.UsageError(f"-o {output} with --pods takes one --from and one --to; or use {others}")
        counts = _of_file(stream, started, targets)
    _print(counts, output or "table")
    return NO if counts.incomplete or (fail_on_restart and counts.restarts) else OK


def _of_cluster(
    connection: ClusterConnection,
    targets: Sequence[KubeletVersion],
    started: KubeletVersion | None,
    output: str | None,
) -> RestartCounts:
    if started is not None:
        raise click.UsageError("--from goes with --pods; in a cluster, each node says its own version")
    if output in {"text", "yaml"}:
        raise click.UsageError(f"-o {output} goes with --pods; use {', '.join(SUMMARIES)}")
    with _cycles_ignored():
        return connection.run(lambda _world, kube: _counted(kube, targets))


@contextmanager
def _cycles_ignored() -> Iterator[None]:
    """Have Python search for no cycles: pods have none, and the search in pages of 500 takes most of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _counted(kube: KubeApi, targets: Sequence[KubeletVersion]) -> RestartCounts:
    for _ in range(ATTEMPTS):
        counts = RestartCounts(targets)
        try:
            async for page in kube.pages(NODES):
                for node in page.items:
                    counts.add_node(node)
            with Progress(console=console(err=True), transient=True, disable=not sys.stderr.isatty()) as progress:
                bar = progress.add_task("reading pods", total=None)
                async for page in _ahead(kube.pages(PODS)):
                    for pod in page.items:
                        counts.add_pod(pod)
                    done = progress.tasks[bar].completed + len(page.items)
                    progress.update(bar, completed=done, total=done + page.remaining)
        except ExpiredError:
            continue
        return counts
    raise CannotError("cannot read the pods because the API server forgets pages too quickly; try again")


async def _ahead(pages: AsyncIterator[Page]) -> AsyncIterator[Page]:
    """Let the API server prepare the next page while this one is examined."""

    async def following() -> Page | None:
        return await anext(pages, None)

    coming = asyncio.ensure_future(following())
    try:
        while (page := await coming) is not None:
            coming = asyncio.ensure_future(following())
            await asyncio.sleep(0)  # let the request go out
            yield page
    finally:
        coming.cancel()


def _of_file(stream: TextIO, started: KubeletVersion | None, targets: Sequence[KubeletVersion]) -> RestartCounts:
    """Count the pods of a file; without ``started``, its Nodes come first and say their versions.

    Of a workload's template nobody knows the node, so it is passed over then.
    """
    counts = RestartCounts(targets, started)
    known, on_node = started is not None, counts.add_node if started is None else None
    for name, pod in named_pods(stream, "explain", templates=known, on_node=on_node):
        if not known and not counts.nodes:
            raise click.UsageError(
                "--pods needs --from, the kubelet version that runs now, or the Nodes before their pods, as from: "
                "kubectl get nodes,pods --all-namespaces -o json"
            )
        counts.templates += bool(name.kind)
        counts.add_pod(dict(pod), subject_of(dict(pod), kind=name.kind))
    return counts


def _print(counts: RestartCounts, output: str) -> None:
    match output:
        case "json":
            write(f"{in_json(restarts.document(counts), indent=2)}\n")
        case "csv":
            write(restarts.csv(counts))
        case "markdown":
            write(restarts.markdown(counts))
        case _:
            show(restarts.table(counts))
    if output in {"json", "csv"}:
        for line in restarts.unexamined(counts):
            say(line, err=True)


def _list_each(
    stream: TextIO, started: KubeletVersion, to: KubeletVersion, output: str, *, fail_on_restart: bool
) -> int:
    """Print a line or a document for each pod as it is read."""
    running = restarting = pods = 0

    def examine(pod: Mapping[str, Any]) -> tuple[Entry, list[Row]]:
        nonlocal running, restarting, pods
        change = explain_pod(pod, started, to)
        found = pod_forecast(dict(pod), started, to)
        running += len(found.running)
        restarting += len(found.restarts)
        pods += bool(found.restarts)
        rows: list[Row] = [("(all)", sentence) for sentence in found.whole_pod]
        rows += [(name, why) for name in found.running for why in change.reasons(name)]
        return {
            **_place(dict(pod)),
            "wholePod": list(found.whole_pod),
            "containers": [_change_entry(each) for each in change.containers if each.container in found.running],
            "resized": [name for name in change.resized if name in found.running],
            "restarts": list(found.restarts),
        }, rows

    def closing() -> str:
        if restarting:
            return f"{restarting} of {counted(running, 'running container')} would restart, in {counted(pods, 'pod')}."
        return f"No container would restart: {counted(running, 'running container')} examined."

    columns = ("CONTAINER", "RESTARTS BECAUSE")
    report(stream, output, columns, wanted="explain", examine=examine, closing=closing, templates=True)
    return NO if fail_on_restart and restarting else OK


def _place(pod: Json) -> Entry:
    """Return the node and the workload of a pod, as far as it has them."""
    subject = subject_of(pod)
    named: Entry = {"node": subject.node} if subject.node else {}
    owned = subject.static or not subject.workload.startswith("bare pod")
    return {**named, "workload": subject.workload} if owned else named


def _change_entry(change: HashChange) -> Entry:
    return {
        "container": change.container,
        "from": str(change.old),
        "to": str(change.new),
        "cause": "fields" if change.fields else "algorithm",
        "fields": list(change.fields),
        "because": change.sentence(),
    }
