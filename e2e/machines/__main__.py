"""Run the rows on virtual machines, and print what was seen."""

import fnmatch
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import click

from e2e.cluster import Cluster
from e2e.lab import Lab, LabError
from e2e.lab.machines.vmnode import VmNode
from e2e.lab.progress import Lines
from e2e.machines.kinds import ROWS
from e2e.machines.row import HEADING, Kind, Row, Seen, result
from e2e.machines.stage import MACHINE, Stage
from e2e.rows import Result, record, recorded, table


@click.command()
@click.option("--only", default="*", show_default=True, help="Only rows with such a name, as a pattern of a shell.")
@click.option("--lab", default="machines", show_default=True, help="Name of the lab.")
@click.option("--copies", default=4, show_default=True, help="How many copies of a disk are booted as machines, too.")
@click.option("--keep", is_flag=True, help="Leave the lab standing, and use one that stands.")
@click.option("--list", "listing", is_flag=True, help="Only list the rows.")
@click.option("--json", "file", type=click.Path(path_type=Path),
              help="Append a line of JSON per row to this file; print the last of each row in it.")  # fmt: skip
@click.option("--page", is_flag=True, help="Only print what is in the file.")
def main(*, only: str, lab: str, copies: int, keep: bool, listing: bool, file: Path | None, page: bool) -> None:
    """Run the rows on virtual machines, and print what was seen."""
    chosen = [] if page else [row for row in ROWS if fnmatch.fnmatch(row.name, only)]
    if listing:
        click.echo("\n".join(f"{row.name:24} {row.kind.name}: {row.does}" for row in chosen))
        return
    results = list[Result]()
    for kind, rows in groupby(chosen, key=lambda row: row.kind):
        for each in _on_machine(lab, kind, list(rows), copies, keep=keep):
            results.append(each)
            click.echo(f"{each} {each.seconds:.0f} s", err=True)
            if file is not None:
                record(file, each)
    shown = results if file is None else recorded(file, (row.name for row in ROWS))
    click.echo(table(HEADING, shown))
    if any(each.complaints for each in results):
        raise click.ClickException("not every row ended as it must")


def _on_machine(lab: str, kind: Kind, rows: Sequence[Row], copies: int, *, keep: bool) -> Iterator[Result]:
    try:
        stage = (_standing(lab, kind, copies) if keep else None) or Stage.up(
            lab, kind.machine, Lines(), most_copies=copies
        )
    except LabError as error:
        yield from (result(row, Seen(complaints=(str(error)[:500],)), 0) for row in rows)
        return
    try:
        yield from (_played(stage, row) for row in rows)
    finally:
        if not keep:
            stage.lab.down()


def _standing(name: str, kind: Kind, copies: int) -> Stage | None:
    """Return the stage that stands, if its machine is of this kind."""
    lab = next((lab for lab in Lab.list() if lab.name == name), None)
    node = None if lab is None else lab.nodes.get(MACHINE)
    if lab is None or not isinstance(node, VmNode) or node.machine != kind.machine:
        return None
    return Stage(Cluster(lab, node), copies)


def _played(stage: Stage, row: Row) -> Result:
    began = time.monotonic()
    try:
        seen = row.play(stage)
    except LabError as error:
        seen = Seen(complaints=(str(error)[:500],))
    return result(row, seen, time.monotonic() - began)


if __name__ == "__main__":
    main()
