"""Upgrade one real node between pairs of kubelet versions, and compare each upgrade with a naive swap of the same pair.

``python -m e2e.pairs 1.15.0-1.17.17 1.30.14-1.33.13-1.30.14`` sets up one lab for each argument and upgrades through
its versions; by default, it covers all pairs that are known to matter. Run by hand, not by the test suite.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from e2e.cluster import Cluster, Object, disturbed
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.binaries.versions import Version
from e2e.lab.nodes.node import Node
from e2e.lab.progress import Lines
from e2e.lab.runtimes import RUNTIMES
from e2e.lab.workloads import workload
from e2e.naive import expected, wait_restarted

CONTROL_PLANE = "1.33.13"
WALKS = (
    "1.15.0-1.17.17", "1.17.17-1.20.15", "1.15.0-1.33.13", "1.17.17-1.30.14",
    "1.20.15-1.30.14", "1.30.14-1.31.4-1.32.2-1.33.13", "1.30.14-1.33.13-1.30.14", "1.33.13-1.20.15",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What the labs have in common: their name, their contents, and what a NodeUpgrade for them says besides."""

    name: str
    pods: int
    control_plane: str
    runtime: str
    spec: Object


@dataclass(frozen=True)
class Row:
    """The outcome of one pair."""

    pair: str
    ended: str
    down: str
    running: int
    disturbed: int  # instances that our upgrade disturbed, of ``running`` containers
    naive: str  # containers that the naive swap restarted, of how many, and why; empty if it was not tried
    said: str


def _walks(_context: click.Context, _parameter: click.Parameter, walks: tuple[str, ...]) -> list[list[str]]:
    """Take walks apart, and read every version of them before a lab is made."""
    chosen = [walk.split("-") for walk in walks or WALKS]
    for walk in chosen:
        if len(walk) < 2:
            raise click.BadParameter(f"{walk[0]!r} leads nowhere; write OLD-NEW, or OLD-NEW-NEXT and so on")
        for version in walk:
            try:
                Version.parse(version)
            except LabError as error:
                raise click.BadParameter(str(error)) from error
    return chosen


@click.command()
@click.argument("walks", nargs=-1, callback=_walks, metavar="[OLD-NEW[-NEXT]...]...")
@click.option("--name", default="pairs", show_default=True, help="Name of the labs that are made for it, one by one.")
@click.option("--pods", default=10, show_default=True, help="Pods on the node.")
@click.option("--control/--no-control", default=True, show_default=True, help="Also swap naively, on a fresh node.")
@click.option("--control-plane", default=CONTROL_PLANE, show_default=True, help="Version of the API server.")
@click.option("--runtime", type=click.Choice([*RUNTIMES]), default="containerd", show_default=True,
              help="Container runtime of the nodes.")  # fmt: skip
@click.option("--accept", multiple=True, help="A check whose findings are accepted, such as runtime_is_proven.")
@click.option("--skew", default="Enforce", show_default=True, help="spec.skewPolicy of the NodeUpgrades.")
def main(
    *,
    walks: list[list[str]],
    name: str,
    pods: int,
    control: bool,
    control_plane: str,
    runtime: str,
    accept: tuple[str, ...],
    skew: str,
) -> None:
    """Upgrade from version to version on real nodes, and print what happened."""
    spec = {"skewPolicy": skew, "preflight": {"accept": list(accept)}}
    kind = Kind(name=name, pods=pods, control_plane=control_plane, runtime=runtime, spec=spec)
    rows: list[Row] = []
    try:
        for walk in walks:
            for row in _walk(walk, kind, control=control):
                rows.append(row)
                click.echo(row)
    finally:
        _print(rows)
    if any(row.disturbed for row in rows):
        raise click.ClickException("an upgrade disturbed what ran")


def _walk(versions: Sequence[str], kind: Kind, *, control: bool) -> Iterator[Row]:
    naive = [_naively(old, new, kind) if control else "" for old, new in _pairs(versions)]
    with _lab(kind, kind.name, versions[0]) as lab:
        cluster = Cluster.with_operator(lab, pods=kind.pods)
        for (old, new), restarted in zip(_pairs(versions), naive, strict=True):
            yield _upgrade(cluster, old, new, restarted, kind.spec)


def _pairs(versions: Sequence[str]) -> list[tuple[str, str]]:
    return list(itertools.pairwise(versions))


def _upgrade(cluster: Cluster, old: str, new: str, naive: str, spec: Object) -> Row:
    before = cluster.wait_settled()
    name = f"from-{old}-to-{new}".replace(".", "-")
    down = Version.parse(new).release < Version.parse(old).release
    cluster.apply(name, new, cluster.pre_staged(new), allowDowngrade=down, **spec)
    upgrade = cluster.wait_for_end(name)
    changed = {d.id for d in disturbed(before, cluster.wait_settled())}
    failures = upgrade["status"].get("failures", [])
    try:
        status = cluster.task().get("status", {})
    except LabError:  # refused before there was a task
        status = {}
    said = failures[0]["message"] if failures else status.get("message", upgrade["status"].get("phase"))
    ended = status.get("phase") or (f"Refused ({failures[0]['reason']})" if failures else "?")
    seconds = status.get("kubelet", {}).get("downSeconds")
    if cluster.kubelet_version() != (new if ended == "Succeeded" else old):
        said = f"the node reports {cluster.kubelet_version()}! {said}"
    return Row(
        pair=f"{old} → {new}",
        ended=str(ended),
        down="" if seconds is None else f"{seconds:.2f}",
        running=len(before.running()),
        disturbed=len(changed),
        naive=naive,
        said=str(said),
    )


def _naively(old: str, new: str, kind: Kind) -> str:
    with _lab(kind, f"{kind.name}-control", old) as lab:
        node = next(iter(lab.nodes.values()))
        workload.start(lab, workload.mixed_workload(kind.pods, node.name, kubelet=old))
        workload.wait_running(lab, count=kind.pods, timeout=600)
        before = node.settled(quiet=5)
        due = expected(before.running(), lab.api.list("pods", namespace=workload.NAMESPACE), old, new)
        try:
            node.swap_naively(new)
        except LabError as error:
            return f"no kubelet: {str(error)[:60]}"
        wait_restarted(node, due)
        after = node.settled(quiet=8 if due else 15)  # nothing tells when a kubelet has looked at all and let them be
        survivors = {c.id for c in after.running()}
        lost = [c for c in before.running() if c.id not in survivors]
        return f"{len(lost)} of {len(before.running())}{_reason(lab, node)}"


def _reason(lab: Lab, node: Node) -> str:
    """Return how the kubelet explains the first restart, in its own words."""
    told = [event["message"] for event in lab.api.list("events", namespace=workload.NAMESPACE)]
    told += node.exec("journalctl", "--unit", "kubelet", "--output", "cat", timeout=120).stdout.splitlines()
    found = (re.search(r"Container (?:spec hash changed|\S+ definition changed).*", message) for message in told)
    return next((f": {match[0]}" for match in found if match), "")


@contextmanager
def _lab(kind: Kind, name: str, kubelet: str) -> Iterator[Lab]:
    spec = LabSpec(name=name, nodes=1, kubelet=kubelet, control_plane=kind.control_plane, runtime=kind.runtime)
    lab = Lab.up(spec, Lines())
    try:
        yield lab
    finally:
        lab.down()


def _print(rows: Sequence[Row]) -> None:
    table = Table(title="Kubelet pairs on one node")
    for heading in ("pair", "ended", "kubelet down s", "running", "disturbed", "naive swap restarted", "said"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(row.pair, row.ended, row.down, str(row.running), str(row.disturbed), row.naive, row.said)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
