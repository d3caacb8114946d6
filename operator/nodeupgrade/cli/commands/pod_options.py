"""What `hash`, `explain` and `verify` share: options, reading pods one by one, and reporting on them."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TextIO

import click
from rich.table import Table

from nodeupgrade.api.json import Json
from nodeupgrade.api.wording import counted
from nodeupgrade.cli.console import Text, console, say, write
from nodeupgrade.cli.inputs.pod_stream import read_pods
from nodeupgrade.cli.inputs.workloads import template_of
from nodeupgrade.cli.output import in_json, in_yaml, output_option
from nodeupgrade.cli.program import CannotError, InputFile, Once
from nodeupgrade.cli.reports.restart_counts import subject_of
from nodeupgrade.cluster.pods import CONFIG_MIRROR
from nodeupgrade.findings.finding import named
from nodeupgrade.kubelethash import HashError, KubeletVersion, UnsupportedKubelet, era_of
from nodeupgrade.kubelethash.pods import container_name, init_containers, regular_containers

_ROWS_PER_TABLE = 500
_MOST_FAILURES = 10_000
_PADDING = (0, 2, 0, 0)
_KINDS_NAMED = 5

Row = tuple[str, ...]
Entry = dict[str, object]
Examine = Callable[[Mapping[str, Any]], tuple[Entry, list[Row]]]


def known_versions(_context: click.Context, _option: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Parse versions separated by commas, each as it was typed; all of them must have known hashes."""
    versions = () if value is None else tuple(each.strip() for each in value.split(","))
    try:
        for version in versions:
            era_of(version)
    except UnsupportedKubelet as error:
        raise click.BadParameter(str(error)) from error
    return versions


def known_version(context: click.Context, option: click.Parameter, value: str) -> KubeletVersion:
    """Parse one version, which must have known hashes."""
    if "," in value:
        raise click.BadParameter("specify exactly one version")
    return KubeletVersion.parse(known_versions(context, option, value)[0])


PODS_OPTION = click.option(
    "--pods",
    "stream",
    cls=Once,
    type=InputFile(),
    required=True,
    metavar="FILE|-",
    help="Pods as JSON, JSON lines or YAML: a Pod, a List, or many. '-' reads standard input.",
)
OUTPUT_OPTION = output_option("Output format: text, or a line of JSON or a YAML document for each pod.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodName:
    """The name of a pod in the input."""

    name: str  # its name, or its position in the input if it has none
    namespace: str = ""
    mirror: bool = False  # whether it is a mirror pod, which the API server shows for a static pod
    kind: str = ""  # the kind of the workload whose template it is; empty for a pod

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {name}" if self.kind else name

    @property
    def label(self) -> str:
        """The name as shown to people; mirror pods are marked."""
        return f"{self} (mirror)" if self.mirror else str(self)

    def entry(self) -> Entry:
        """Return the name as JSON."""
        named: Entry = {"name": self.name}
        if self.namespace:
            named["namespace"] = self.namespace
        if self.mirror:
            named["mirror"] = True
        if self.kind:
            named["kind"] = self.kind
        return named


def named_pods(
    stream: TextIO, wanted: str, *, templates: bool = False, on_node: Callable[[Json], None] | None = None
) -> Iterator[tuple[PodName, Mapping[str, Any]]]:
    """Read pods with their names, and pass over what is none; an input without any is an error.

    With ``templates``, workloads count as the pods that they would create, unless such a pod is in the input: they come
    last. ``wanted`` says what the command does, as a verb. ``on_node`` is called with each Node.
    """
    found, passed_over, owners = 0, Counter[str](), set[str]()
    later: dict[str, tuple[PodName, Json]] = {}
    for number, body in enumerate(read_pods(stream), start=1):
        if not isinstance(body, dict):
            raise CannotError(
                f"cannot {wanted} anything but pods, and number {number} of the input is not an object; "
                "give pods as from: kubectl get pods --all-namespaces -o json"
            )
        name, kind = _name(body, number), str(body.get("kind") or "Pod")
        if kind == "Pod":
            found += 1
            if templates:
                owners.add(subject_of(body).workload)
            yield name, body
        elif kind == "Node" and on_node is not None:
            on_node(body)
        elif templates and (template := template_of(body)) is not None:
            known = replace(name, kind=kind)
            later[f"{kind} {name.namespace or 'default'}/{name.name}"] = known, template
        else:
            passed_over[_full_kind(body)] += 1
    for owner, (name, template) in later.items():
        if owner not in owners:
            found += 1
            yield name, template
    _say_passed_over(passed_over, wanted, found=bool(found))


def _full_kind(body: Json) -> str:
    """Return the kind, with its group where it is not one of Kubernetes' old ones: ``Job.batch.volcano.sh``."""
    group = str(body.get("apiVersion") or "").partition("/")[0]
    return f"{body['kind']}.{group}" if "." in group else str(body["kind"])


def _say_passed_over(kinds: Counter[str], wanted: str, *, found: bool) -> None:
    """Say what was passed over; if that was everything, as after a pipe that failed, it is an error."""
    listed = named([f"{number} {kind}" for kind, number in kinds.most_common()], _KINDS_NAMED)
    if found and kinds:
        say(f"passed over: {listed}", err=True)
    elif kinds:
        raise CannotError(
            f"cannot {wanted} anything because there is no pod in the input, only: {listed}; "
            "give pods as from: kubectl get pods --all-namespaces -o json"
        )
    elif not found:
        raise CannotError(
            f"cannot {wanted} anything because there is no pod in the input; "
            "check whether the command that writes it failed"
        )


def report(
    stream: TextIO,
    output: str,
    columns: Row,
    *,
    wanted: str,
    examine: Examine,
    closing: Callable[[], str],
    templates: bool = False,
) -> None:
    """Examine pods one by one and print each result at once. A pod that fails is reported, and fails the command.

    ``examine`` returns what to print for a pod, as JSON and as rows of text; ``closing`` the last line of the text,
    after all pods were examined, or nothing. ``wanted`` is what the command does, as a verb: "cannot explain ...".
    ``templates`` is as for ``named_pods``.
    """
    failed = examined = mirrors = 0

    def results() -> Iterator[tuple[Entry, list[Row]]]:
        nonlocal failed, examined, mirrors
        for name, pod in named_pods(stream, wanted, templates=templates):
            examined += 1
            mirrors += name.mirror
            try:
                entry, rows = examine(pod)
            except HashError as error:
                failed += 1
                entry, rows = {"error": str(error)}, []
                if output == "text":
                    say(f"{name.label}: {error}", err=True)
            yield {**name.entry(), **entry}, [(name.label, *row) for row in rows]
            if failed >= _MOST_FAILURES:
                break

    if output == "text":
        print_tables(("POD", *columns), (row for _, rows in results() for row in rows))
        if mirrors:
            say(_MIRRORS)
        if failed < examined and (last := closing()):
            say(last)
    else:
        printed = (_dumped(entry, output) for entry, _ in results())
        while batch := "".join(itertools.islice(printed, _ROWS_PER_TABLE)):
            write(batch)
    if failed:
        them = "it is" if failed == 1 else "each is"
        rest = f" of {counted(examined, 'pod')} could not be examined; {them} named above"
        raise CannotError(f"cannot {wanted} everything because {failed}{rest}")


_MIRRORS = "(mirror) marks the API server's copy of a static pod; its kubelet hashes the manifest on the node."


def _dumped(entry: Entry, output: str) -> str:
    return f"{in_json(entry)}\n" if output == "json" else f"---\n{in_yaml(entry)}"


def _name(given: Mapping[str, Any], number: int) -> PodName:
    metadata = given.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    annotations = metadata.get("annotations")
    name, namespace = metadata.get("name") or given.get("name"), metadata.get("namespace")
    return PodName(
        name=str(name) if isinstance(name, str | int) else f"#{number}",
        namespace=namespace if isinstance(namespace, str) else "",
        mirror=isinstance(annotations, Mapping) and CONFIG_MIRROR in annotations,
    )


def print_tables(columns: Row, rows: Iterable[Row]) -> None:
    """Print rows as they come, in tables of a few hundred rows, so that memory use does not grow with the cluster."""
    screen, rows = console(), iter(rows)
    while batch := list(itertools.islice(rows, _ROWS_PER_TABLE)):
        table = Table(*columns, box=None, pad_edge=False, header_style="bold", padding=_PADDING)
        for row in batch:
            table.add_row(*(Text(cell, overflow="fold") for cell in row))
        screen.print(table)


Specs = Mapping[str, Mapping[str, object]]


def specs_by_name(pod: Mapping[str, object]) -> Specs:
    """Return the containers of a pod by name, init containers first."""
    every = (*init_containers(pod), *regular_containers(pod))
    return {container_name(pod, each): each for each in every}
