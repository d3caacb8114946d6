"""Run upstream's specs on a node that was upgraded in place, and on a fresh one beside it."""

import json
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import click

from e2e.changes import kubelet_settings
from e2e.cluster import Cluster, disturbed
from e2e.conformance import images, programs
from e2e.conformance.outcomes import FAILED, Outcome, Row, beside
from e2e.conformance.suite import Suite
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.binaries.versions import Version
from e2e.lab.nodes import baseroot
from e2e.lab.nodes.node import Node
from e2e.lab.progress import Lines

PAIR = ("1.30.14", "1.33.13")
_FRESH = "fresh"


@click.command()
@click.option("--pair", type=(str, str), default=PAIR, show_default=True, help="Version of the kubelet, and of the new "
              "one, which is the version of specs, control plane and fresh node.")  # fmt: skip
@click.option("--pods", default=20, show_default=True, help="Pods on the node from before its upgrade.")
@click.option("--parallel", default=8, show_default=True, help="How many specs run at once.")
@click.option("--only", default="", help="Only specs in whose names this regular expression is found.")
@click.option("--control", is_flag=True, help="Keep the upgraded node's kubelet from serving logs and exec: the specs "
              "must notice it.")  # fmt: skip
@click.option("--name", default="conformance", show_default=True, help="Name of the lab that is made for it.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Append a line of JSON per spec to this file.")
def main(
    *, pair: tuple[str, str], pods: int, parallel: int, only: str, control: bool, name: str, file: Path | None
) -> None:
    """Run upstream's NodeConformance on an upgraded node, beside a fresh one."""
    old, new = pair
    built = programs.ensure(Version.parse(new), Lines())
    lab = Lab.anew(LabSpec(name=name, nodes=1, kubelet=old, control_plane=new), Lines())
    try:
        cluster = Cluster.with_operator(lab, pods=pods)
        before = cluster.wait_settled()
        _upgrade(cluster, new)
        nodes = (cluster.node, lab.add_node(_FRESH, kubelet=new, register_unschedulable=True))
        lab.wait_ready()
        suite = Suite(lab, built.suite)
        _import_images(lab, suite, built)
        with kubelet_settings(cluster.node, enableDebuggingHandlers=False) if control else nullcontext():
            rows = _both(suite, nodes, suite.names(only), parallel=parallel)
        lost = disturbed(before, cluster.wait_settled())
    finally:
        lab.down()
    for row in rows:
        if file is not None:
            with file.open("a") as stream:
                stream.write(f"{json.dumps(asdict(row))}\n")
        if not row.same or row.upgraded == FAILED:
            click.echo(f"{row.upgraded} | {row.fresh}: {row.spec}: {row.said}")
    differ = sum(not row.same for row in rows)
    click.echo(f"{len(rows)} specs, {differ} differ; {len(lost)} of {len(before.running())} containers disturbed")
    if control and not differ:
        raise click.ClickException("no spec noticed a kubelet that serves neither logs nor exec")
    if (differ and not control) or lost:
        raise click.ClickException("the upgraded node is not like the fresh one")


def _upgrade(cluster: Cluster, version: str) -> None:
    cluster.apply("conformance", version, cluster.pre_staged(version))
    ended = cluster.wait_for_end("conformance")
    if cluster.kubelet_version() != version or cluster.task()["status"].get("phase") != "Succeeded":
        raise LabError(f"the upgrade did not succeed: {ended['status']}")


def _import_images(lab: Lab, suite: Suite, built: programs.Programs) -> None:
    with tempfile.TemporaryDirectory() as directory:
        for archive in images.write_archives(suite.images(), built, baseroot.ensure(Lines()), Path(directory)):
            lab.import_image(archive)


def _both(suite: Suite, nodes: tuple[Node, Node], names: Sequence[str], *, parallel: int) -> list[Row]:
    """Run specs on one node and then on the other; those that differ once more on both, one by one."""
    upgraded, fresh = (_on(suite, node, nodes, names, parallel=parallel) for node in nodes)
    if again := [row.spec for row in beside(upgraded, fresh) if not row.same]:
        click.echo(f"once more: {'; '.join(again)}", err=True)
        for found, node in ((upgraded, nodes[0]), (fresh, nodes[1])):
            found.update(_on(suite, node, nodes, again, parallel=1))
    return beside(upgraded, fresh)


def _on(suite: Suite, node: Node, nodes: Sequence[Node], names: Sequence[str], *, parallel: int) -> dict[str, Outcome]:
    for each in nodes:
        suite.lab.kubectl("uncordon" if each is node else "cordon", each.name)
    return suite.outcomes(names, parallel=parallel)


if __name__ == "__main__":
    main()
