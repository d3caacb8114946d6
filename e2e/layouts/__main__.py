"""Upgrade nodes of all layouts there and back beside a control, and print how each ended."""

import contextlib
import fnmatch
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from e2e.cluster import GUARDED, Cluster, disturbed, quickly
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.binaries import components
from e2e.lab.progress import Lines
from e2e.layouts.catalogue import LAYOUTS
from e2e.layouts.layout import Layout, lay_out
from e2e.naive import wait_restarted
from e2e.pods import claiming

OLD, NEW = PAIR = "1.30.14", "1.33.13"
CONTROL_PLANE = "1.33.13"
HEADING = """\
| layout | there, back | containers | disturbed | a naive swap restarts | said |
|---|---|---|---|---|---|"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How it went with one layout."""

    layout: Layout
    phases: tuple[str, ...]  # how each run ended
    containers: int
    disturbed: int  # instances that were not the same after all runs
    naive: int | None  # containers that a naive swap restarted; None if it was not tried
    said: str  # what the last run that did not succeed said

    @property
    def good(self) -> bool:
        """Whether every run succeeded, nothing was disturbed, and a control shows that something could have been."""
        return set(self.phases) == {"Succeeded"} and not self.disturbed and self.naive != 0

    def __str__(self) -> str:
        """Render a line of the table."""
        said = "; ".join(filter(None, (self.layout.note, self.said)))
        naive = "not tried" if self.naive is None else f"{self.naive} of {self.containers}"
        cells = (self.layout.name, ", ".join(self.phases), str(self.containers), str(self.disturbed), naive, said)
        return f"| {' | '.join(cells)} |"


@click.command()
@click.option("--pods", default=20, show_default=True, help="Pods on the node.")
@click.option("--rounds", default=2, show_default=True, help="How often each node is upgraded there and back.")
@click.option("--control/--no-control", default=True, show_default=True, help="Also swap naively at the end.")
@click.option("--only", default="*", show_default=True, help="Only layouts with such a name, as a pattern of a shell.")
@click.option("--name", default="layout", show_default=True, help="Name of the labs that are made for it, one by one.")
@click.option(
    "--pair", type=(str, str), default=PAIR, show_default=True, help="Version of the kubelet, and of the new one."
)
@click.option("--claim", is_flag=True, help="One more pod, which uses a claim.")
@click.option("--part", default="1/1", show_default=True, metavar="K/N", help="Every N-th layout from the K-th on.")
@click.option("--output", type=click.Path(path_type=Path), help="Also write the table to this file, row by row.")
def main(
    *, pods: int, rounds: int, control: bool, only: str, name: str, pair: tuple[str, str], claim: bool, part: str,
    output: Path | None,
) -> None:  # fmt: skip
    """Upgrade nodes of all layouts there and back, beside a control, and print how each ended."""
    rows = list[Row]()
    first, step = (int(number) for number in part.split("/"))
    chosen = [layout for layout in LAYOUTS if fnmatch.fnmatch(layout.name, only)]
    for layout in chosen[first - 1 :: step]:
        began = time.monotonic()
        rows.append(try_layout(layout, name, pods, pair, rounds, control=control, claim=claim))
        click.echo(f"{rows[-1]} {time.monotonic() - began:.0f} s", err=True)
        if output is not None:
            output.write_text(table(rows))
    click.echo(table(rows))
    if not rows or not all(row.good for row in rows):
        raise click.ClickException("not every layout is upgraded there and back without a restart")


def table(rows: Sequence[Row]) -> str:
    """Return the table, and where its layouts are from."""
    sources = (f"- {row.layout.name}: {row.layout.source}" for row in rows)
    return "\n".join((HEADING, *map(str, rows), "", *sources, ""))


def try_layout(
    layout: Layout, name: str, pods: int, pair: tuple[str, str], rounds: int, *, control: bool, claim: bool
) -> Row:
    """Give a node of a lab of that name this layout, and upgrade it there and back."""
    old, new = pair
    versions = (new, old) * rounds
    spec = LabSpec(name=name, nodes=1, kubelet=old, control_plane=CONTROL_PLANE)
    lab = Lab.anew(spec, Lines())
    try:
        (node,) = lab.nodes.values()
        lay_out(lab, node, layout)
        cluster = Cluster.with_operator(lab, pods=pods)
        with claiming(cluster) if claim else contextlib.nullcontext():
            before = cluster.wait_settled()
            runs = list(_runs(cluster, layout, versions))
            after = cluster.wait_settled()
            naive = _swapped_naively(cluster, layout, new) if control and len(runs) == len(versions) else None
        return Row(
            layout=layout,
            phases=tuple(phase for phase, _ in runs),
            containers=len(before.running()),
            disturbed=len(disturbed(before, after)),
            naive=naive,
            said=next((message for phase, message in reversed(runs) if phase != "Succeeded"), ""),
        )
    except LabError as error:
        return Row(layout=layout, phases=("no node",), containers=0, disturbed=0, naive=None, said=str(error)[:300])
    finally:
        lab.down()


def _runs(cluster: Cluster, layout: Layout, versions: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield how each run ends, up to the first that does not succeed."""
    for number, version in enumerate(versions, 1):
        name = f"run-{number}"
        spec = {"verify": quickly(**layout.verify), **layout.spec}
        cluster.apply(name, version, cluster.pre_staged(version), allowDowngrade=True, skewPolicy="Warn", **spec)
        upgrade = cluster.wait_for_end(name)
        failures = upgrade["status"].get("failures", [])
        if failures:
            yield f"{failures[0]['outcome']} ({failures[0]['reason']})", failures[0]["message"]
            return
        if cluster.kubelet_version() != version:
            yield str(upgrade["status"].get("phase")), f"the node reports {cluster.kubelet_version()}"
            return
        guard = cluster.task()["status"].get("guard", {})
        if layout.verify == GUARDED and guard.get("state") != "InForce":
            yield "not guarded", str(guard)
            return
        yield "Succeeded", ""
        cluster.delete(name)


def _swapped_naively(cluster: Cluster, layout: Layout, new: str) -> int:
    """Swap the kubelet as people do, and return how many containers that restarts."""
    node, ran = cluster.node, {container.id for container in cluster.wait_settled().running()}
    node.exec("systemctl", "stop", "kubelet")
    node.put(components.resolve("kubelet", new), "/var/tmp/kubelet")
    node.exec("sh", "-ec", f"mount -o remount,bind,rw /usr 2>/dev/null || true; cp /var/tmp/kubelet {layout.kubelet}")
    node.exec("systemctl", "start", "kubelet")
    node.wait_kubelet_healthy()
    wait_restarted(node, ran)
    kept = {container.id for container in node.settled(quiet=8).running()}
    return len(ran - kept)


if __name__ == "__main__":
    main()
