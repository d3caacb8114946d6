"""`nodeupgrade hash` and `nodeupgrade explain`: what kubelets would compute, without a cluster."""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TextIO

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nodeupgrade.cli.pod_stream import read_pods
from nodeupgrade.kubelethash import (
    Change,
    HashError,
    KubeletVersion,
    PodChange,
    UnreadablePod,
    UnsupportedKubelet,
    era_of,
    explain_pod,
    hash_container,
)
from nodeupgrade.kubelethash.pods import container_name, init_containers, regular_containers

_ROWS_PER_TABLE = 500
_WIDTH_WITHOUT_TERMINAL = 200

Row = tuple[str, ...]
Entry = dict[str, object]


def _known_versions(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, ...]:
    """Versions whose hashes are known, each kept as it was typed. Commas separate them."""
    versions = tuple(each.strip() for each in value.split(","))
    try:
        for version in versions:
            era_of(version)
    except UnsupportedKubelet as error:
        raise click.BadParameter(str(error)) from error
    return versions


def _known_version(context: click.Context, option: click.Parameter, value: str) -> KubeletVersion:
    """One version whose hashes are known."""
    if "," in value:
        raise click.BadParameter("give one version")
    return KubeletVersion.parse(_known_versions(context, option, value)[0])


_PODS_OPTION = click.option(
    "--pods",
    "stream",
    type=click.File("r", encoding="utf-8", errors="surrogateescape"),
    required=True,
    metavar="FILE|-",
    help="Pods as JSON, JSON lines or YAML: a Pod, a List, or many. '-' reads standard input.",
)
_OUTPUT_OPTION = click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="json: one line per pod.",
)


@click.command("hash")
@click.option(
    "--kubelet-version",
    "versions",
    callback=_known_versions,
    required=True,
    metavar="VERSION[,VERSION...]",
    help="One or more kubelet versions, such as 1.17,1.30,v1.33.13.",
)
@_PODS_OPTION
@_OUTPUT_OPTION
def hash_command(versions: tuple[str, ...], stream: TextIO, output: str) -> None:
    """Print the container hashes that kubelets of given versions compute.

    Example: kubectl get pods -A -o json | nodeupgrade hash --kubelet-version 1.30,1.33 --pods -
    """

    def examine(pod: Mapping[str, object]) -> tuple[Entry, list[Row]]:
        hashes = {version: _hashes(pod, version) for version in versions}
        rows = [(name, *(hashes[version][name] for version in versions)) for name in hashes[versions[0]]]
        return {"hashes": hashes}, rows

    _report(stream, output, ("CONTAINER", *versions), "There are no containers.", examine)


@click.command("explain")
@click.option(
    "--from", "from_", callback=_known_version, required=True, metavar="VERSION", help="The kubelet that runs now."
)
@click.option("--to", callback=_known_version, required=True, metavar="VERSION", help="The kubelet to come.")
@_PODS_OPTION
@_OUTPUT_OPTION
def explain_command(from_: KubeletVersion, to: KubeletVersion, stream: TextIO, output: str) -> None:
    """Print which containers would restart if only the kubelet were swapped, and why.

    Example: kubectl get pods -A -o json | nodeupgrade explain --from 1.30 --to 1.33 --pods -
    """

    def examine(pod: Mapping[str, object]) -> tuple[Entry, list[Row]]:
        change = explain_pod(pod, from_, to)
        rows: list[Row] = [("(all)", sentence) for sentence in change.whole_pod]
        rows += [(each.container, each.sentence()) for each in change.containers]
        return _pod_change_entry(change), rows

    _report(stream, output, ("CONTAINER", "RESTARTS BECAUSE"), "No container would restart.", examine)


def _hashes(pod: Mapping[str, object], version: str) -> dict[str, str]:
    """Container name to hash, in the order in which the pod lists them, init containers first."""
    every = (*init_containers(pod), *regular_containers(pod))
    return {container_name(pod, each): hash_container(each, version) for each in every}


def _pod_change_entry(change: PodChange) -> Entry:
    return {"wholePod": list(change.whole_pod), "containers": [_change_entry(each) for each in change.containers]}


def _change_entry(change: Change) -> Entry:
    return {
        "container": change.container,
        "from": change.old,
        "to": change.new,
        "cause": str(change.cause),
        "fields": list(change.fields),
        "because": change.sentence(),
    }


def _report(
    stream: TextIO,
    output: str,
    columns: Row,
    nothing: str,
    examine: Callable[[Mapping[str, object]], tuple[Entry, list[Row]]],
) -> None:
    """Examine pod after pod, printing as they come. One that fails is printed as its error and fails the command."""
    failed = 0

    def results() -> Iterator[tuple[Entry, list[Row]]]:
        nonlocal failed
        for number, pod in enumerate(read_pods(stream), start=1):
            named = _identity(pod, number)
            label = "/".join(str(part) for part in reversed(named.values()))
            try:
                if not isinstance(pod, Mapping):
                    raise UnreadablePod("", "the top", f"there is no object but {type(pod).__name__}")
                entry, rows = examine(pod)
            except HashError as error:
                failed += 1
                entry, rows = {"error": str(error)}, []
                if output != "json":
                    click.echo(f"{label}: {error}".encode(errors="replace"), err=True)
            yield {**named, **entry}, [(label, *row) for row in rows]

    if output == "json":
        for entry, _ in results():
            click.echo(json.dumps(entry))
    else:
        printed = _print_tables(("POD", *columns), (row for _, rows in results() for row in rows))
        if not printed and not failed:
            click.echo(nothing)
    if failed:
        raise click.ClickException(f"{failed} of the pods could not be examined; each is named above")


def _identity(pod: object, number: int) -> dict[str, str]:
    """What tells the pod from others: its name and namespace, or its place in the input."""
    given = pod if isinstance(pod, Mapping) else {}
    metadata = given.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    name = metadata.get("name") or given.get("name") or f"#{number}"
    namespace = metadata.get("namespace")
    return {"name": str(name), "namespace": str(namespace)} if namespace else {"name": str(name)}


def _print_tables(columns: Row, rows: Iterator[Row]) -> bool:
    """Print rows as they come, a table for every few hundred, so that memory does not grow with the cluster.

    Returns:
        Whether there was any row.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDTH_WITHOUT_TERMINAL)
    printed = False
    while batch := list(itertools.islice(rows, _ROWS_PER_TABLE)):
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in batch:
            table.add_row(*map(_cell, row))
        console.print(table)
        printed = True
    return printed


def _cell(content: str) -> Text:
    """Text without markup; bytes that were no UTF-8 become question marks."""
    return Text(content.encode(errors="replace").decode(), overflow="fold")
