"""Inject every known fault into upgrades of a real node, and print how each run ended.

``make e2e-faults`` takes some six hours on one node; ``python -m e2e.faults --only PREFIX`` selects. Several nodes
share them: a lab with ``--nodes 3 --keep``, then for each node ``--node NAME --part 1/3 --json FILE``. With ``--json``,
what is in the file as it must be is not run again, and ``--rows`` prints it as rows of docs/measured/faults.jsonl.
The test suite runs a part.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from e2e.cluster import Cluster
from e2e.faults.fault import Row, upgrade_under
from e2e.faults.kinds import FAULTS
from e2e.lab import Lab, LabSpec
from e2e.lab.cluster import deploy
from e2e.lab.progress import Lines
from e2e.lab.runtimes import RUNTIMES, LabRuntime, runtime_named
from e2e.layouts.catalogue import LAYOUTS, layout_named
from e2e.layouts.layout import lay_out

CONTROL_PLANE = "1.33.13"
PODS = 20
NOT_YET = "nodeupgrade.test/not-yet"
"""A taint that keeps the operator, which tolerates a cordon, away from a node."""


@click.command()
@click.option("--only", multiple=True, help="Beginning of the names of the faults that are meant; may be repeated.")
@click.option("--name", default="faults", show_default=True, help="Lab to use; it is made if there is none.")
@click.option("--pods", default=PODS, show_default=True, help="Pods on each node.")
@click.option("--nodes", default=1, show_default=True, help="Nodes of a lab that is made.")
@click.option("--runtime", type=click.Choice([*RUNTIMES]), default="containerd", show_default=True,
              help="Container runtime of a lab that is made.")  # fmt: skip
@click.option("--layout", type=click.Choice([layout.name for layout in LAYOUTS]),
              help="How the node of a lab that is made is laid out; its first kubelet is 1.30.14.")  # fmt: skip
@click.option("--node", "on", help="Node to use, of a lab that stands; so several of this command may share a lab.")
@click.option("--keep", is_flag=True, help="Leave the lab standing.")
@click.option("--list", "listing", is_flag=True, help="Only list the faults.")
@click.option("--json", "file", type=click.Path(path_type=Path),
              help="Append a line of JSON per run to this file; skip what ended as it must there.")  # fmt: skip
@click.option("--part", default="1/1", show_default=True, metavar="K/N", help="Every N-th fault from the K-th on.")
@click.option("--rows", "printing", is_flag=True, help="Only print what is in the file as rows of docs/measured.")
def main(
    *,
    only: tuple[str, ...],
    name: str,
    pods: int,
    nodes: int,
    runtime: str,
    layout: str | None,
    on: str | None,
    keep: bool,
    listing: bool,
    file: Path | None,
    part: str,
    printing: bool,
) -> None:
    """Try to break an upgrade on one real node.

    Faults of the API server and of the operator (api/, operator/) concern every node: nobody else may use the lab then.
    """
    recorded = _recorded(file)
    if printing:
        click.echo("\n".join(_measured(recorded, runtime)))
        return
    first, step = (int(number) for number in part.split("/"))
    done = {row.fault for row in recorded if not row.complaints}
    there = runtime_named(runtime) if on is None else Lab.load(name).node(on).runtime
    wanted = [fault for fault in FAULTS if fault.needs(there) and (not only or fault.name.startswith(only))]
    chosen = [fault for fault in wanted[first - 1 :: step] if fault.name not in done]
    if listing:
        click.echo("\n".join(fault.name for fault in chosen))
        return
    cluster = _cluster(name, pods, nodes, runtime, layout) if on is None else _member(name, on)
    ran_on = cluster.node.runtime  # the lab is down when the table is printed
    known: dict[tuple[str, str], str] = {}
    rows: list[Row] = []
    try:
        for number, fault in enumerate(chosen, 1):
            rows.append(upgrade_under(cluster, fault, known))
            click.echo(f"{number}/{len(chosen)} {_line(rows[-1])}")
            if file is not None:
                with file.open("a") as stream:
                    stream.write(json.dumps(vars(rows[-1])) + "\n")
    finally:
        if not keep and on is None:
            cluster.lab.down()
        _print(rows, ran_on)
    if any(row.complaints for row in rows):
        raise click.ClickException("not every run ended as it must")


def _recorded(file: Path | None) -> list[Row]:
    """Return the runs of a file, the last one of each fault, in the order of the table."""
    lines = file.read_text().splitlines() if file is not None and file.exists() else []
    last = {row.fault: row for row in (Row(**json.loads(line)) for line in lines)}
    return [last[fault.name] for fault in FAULTS if fault.name in last]


def _measured(rows: Iterable[Row], runtime: str) -> Iterator[str]:
    """Render runs on nodes with this runtime as lines of JSON."""
    for row in rows:
        reason = re.search(r"(?:^|; )([A-Z][A-Za-z]+): ", row.notes) if row.ended != "Succeeded" else None
        fields = {
            "runtime": runtime,
            "fault": row.fault,
            "ended": row.ended,
            "reason": reason and reason[1],
            "kubelet_down_seconds": float(row.down) if row.down else None,
            "row_seconds": round(row.seconds),
            "complaints": list(row.complaints) or None,
        }
        yield json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)


def _member(lab: str, node: str) -> Cluster:
    found = Lab.load(lab)
    return Cluster(found, found.node(node))


def _cluster(name: str, pods: int, nodes: int, runtime: str, layout: str | None) -> Cluster:
    """Create a lab with the operator on the first node, and the same workload on each node."""
    found = next((lab for lab in Lab.list() if lab.name == name), None)
    if found is not None:
        deploy.deploy_operator(found)
        return Cluster(found, next(iter(found.nodes.values())))
    kubelet, _ = runtime_named(runtime).eras
    spec = LabSpec(name=name, nodes=nodes, kubelet=kubelet, control_plane=CONTROL_PLANE, runtime=runtime)
    lab = Lab.up(spec, Lines())
    first, *others = lab.nodes
    try:
        if layout is not None:
            lay_out(lab, lab.node(first), layout_named(layout))
        for other in others:
            lab.kubectl("taint", "nodes", other, f"{NOT_YET}=:NoSchedule")
        cluster = Cluster.with_operator(lab, pods=pods)
        for other in others:
            Cluster(lab, lab.node(other)).start_workload(pods, suffix=f"-{other}")
        for other in others:
            lab.kubectl("taint", "nodes", other, f"{NOT_YET}-")
        return cluster
    except BaseException:
        lab.down()
        raise


def _line(row: Row) -> str:
    verdict = "ok" if not row.complaints else "BROKEN " + " | ".join(row.complaints)
    return f"{row.fault}: {row.ended} in {row.seconds:.0f} s, kubelet down {row.down or '-'} s; {row.notes}; {verdict}"


def _print(rows: Sequence[Row], runtime: LabRuntime) -> None:
    pair = f"{runtime.name}, {' ↔ '.join(runtime.eras)}"
    table = Table(title=f"{pair}: {len(rows)} runs, {sum(bool(row.complaints) for row in rows)} broken")
    for heading in ("fault", "ended", "s", "kubelet down", "seen", "not as it must be"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(row.fault, row.ended, f"{row.seconds:.0f}", row.down, row.notes, "\n".join(row.complaints))
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
