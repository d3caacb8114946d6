"""Make every hazard that preflight looks for on a real node, one by one, and print what was said about each.

``make e2e-preflight`` takes about half an hour; ``python -m e2e.preflight --only PREFIX`` selects. Each row makes one
hazard, has the node looked at with ``action: Plan``, and takes the hazard away: exactly one check may find it, with the
expected reason. The test suite runs a part (e2e/test_preflight.py).
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from e2e.cluster import Cluster
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.cluster import deploy
from e2e.lab.progress import Lines
from e2e.preflight.accepted import ACCEPTED, run_anyway
from e2e.preflight.controls import CONTROL_PLANE, PAIRS, control
from e2e.preflight.kinds import ROWS
from e2e.preflight.row import OLD, Outcome, show

PODS = 20
HELP = """Show on real nodes what preflight finds.

\b
KIND/NAME            makes one hazard, has the node looked at (action: Plan,
                     so nothing is upgraded), and takes the hazard away
accepted/KIND/NAME   makes it, accepts the check, and runs the upgrade
control/OLD-NEW      makes no hazard; in a lab of its own, one at a time
"""


@dataclass(frozen=True)
class Task:
    """One line of the table, still to be done."""

    name: str
    shows: str
    do: Callable[[], Outcome]


@click.command(help=HELP, epilog="Example: python -m e2e.preflight --only runtime/ --keep; the lab is then reused.")
@click.option("--only", multiple=True, help="Beginning of the names of the rows that are meant; may be repeated.")
@click.option("--name", default="preflight", show_default=True, help="Lab to use; it is made if there is none.")
@click.option("--pods", default=PODS, show_default=True, help="Pods on the node of a lab that is made.")
@click.option("--keep", is_flag=True, help="Leave the lab standing.")
@click.option("--fresh/--as-is", default=True, help="Deploy the operator of this checkout into a lab that stands.")
@click.option("--list", "listing", is_flag=True, help="Only list the rows and the checks that they show.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Append a line of JSON per row to this file.")
def main(
    *, only: tuple[str, ...], name: str, pods: int, keep: bool, fresh: bool, listing: bool, file: Path | None
) -> None:
    """Show on real nodes what preflight finds."""
    chosen = [task for task in _tasks(name, pods, fresh=fresh) if not only or task.name.startswith(only)]
    if listing:
        click.echo("\n".join(f"{task.name:36} {task.shows}" for task in chosen))
        return
    outcomes: list[Outcome] = []
    try:
        for number, task in enumerate(chosen, 1):
            outcomes.append(task.do())
            click.echo(f"{number}/{len(chosen)} {_line(outcomes[-1])}")
            if file is not None:
                with file.open("a") as stream:
                    stream.write(json.dumps(vars(outcomes[-1])) + "\n")
    finally:
        if not keep:
            _down(name)
        _print(outcomes)
    if any(outcome.complaints for outcome in outcomes):
        raise click.ClickException("not everything was found as it must be")


def _tasks(name: str, pods: int, *, fresh: bool) -> Iterator[Task]:
    cluster = cache(lambda: _cluster(name, pods, fresh=fresh))
    for row in ROWS:
        yield Task(row.name, row.shows, lambda row=row: show(cluster(), row))  # type: ignore[misc]
    for each in ACCEPTED:
        shows = next(row.shows for row in ROWS if row.name == each.row)
        yield Task(f"accepted/{each.row}", shows, lambda each=each: run_anyway(cluster(), each))  # type: ignore[misc]
    for pair in PAIRS:
        yield Task(f"control/{'-'.join(pair)}", "", lambda pair=pair: control(f"{name}-control", pair))  # type: ignore[misc]


def _cluster(name: str, pods: int, *, fresh: bool) -> Cluster:
    found = _found(name)
    if found is not None:
        if fresh:
            deploy.deploy_operator(found)
        return Cluster(found, next(iter(found.nodes.values())))
    lab = Lab.up(LabSpec(name=name, nodes=1, kubelet=OLD, control_plane=CONTROL_PLANE), Lines())
    try:
        return Cluster.with_operator(lab, pods=pods)
    except BaseException:
        lab.down()
        raise


def _found(name: str) -> Lab | None:
    try:
        return Lab.load(name)
    except LabError:
        return None


def _down(name: str) -> None:
    if (lab := _found(name)) is not None:
        lab.down()


def _line(outcome: Outcome) -> str:
    verdict = "ok" if not outcome.complaints else "BROKEN " + " | ".join(outcome.complaints)
    return f"{outcome.row}: {outcome.shows} {outcome.ended} in {outcome.seconds:.0f} s: {outcome.said}; {verdict}"


def _print(outcomes: Sequence[Outcome]) -> None:
    broken = sum(bool(outcome.complaints) for outcome in outcomes)
    table = Table(title=f"{len(outcomes)} hazards on a real node, {broken} not found as they must be")
    for heading in ("hazard", "check", "reason", "ended", "s", "said", "not as it must be"):
        table.add_column(heading, overflow="fold")
    for each in outcomes:
        seconds, wrong = f"{each.seconds:.0f}", "\n".join(each.complaints)
        table.add_row(each.row, each.shows, each.reason, each.ended, seconds, each.said, wrong)
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
