"""Run the rows on clusters that kubeadm makes, and print what was seen."""

import fnmatch
import time
from pathlib import Path

import click

from e2e.fleet import Fleet
from e2e.kubeadm.kinds import ROWS
from e2e.kubeadm.row import HEADING, Row, Seen, result
from e2e.kubeadm.stage import NEW, OLD, Stage
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.cluster import deploy
from e2e.lab.process import wait_until
from e2e.lab.progress import Lines
from e2e.rows import Result, record, recorded, table


@click.command()
@click.option("--only", default="*", show_default=True, help="Only rows with such a name, as a pattern of a shell.")
@click.option("--pods", default=10, show_default=True, help="Pods on each node.")
@click.option("--keep", is_flag=True, help="Leave the lab standing, and use one that stands.")
@click.option("--list", "listing", is_flag=True, help="Only list the rows.")
@click.option("--json", "file", type=click.Path(path_type=Path),
              help="Append a line of JSON per row to this file; print the last of each row in it.")  # fmt: skip
@click.option("--page", is_flag=True, help="Only print what is in the file.")
def main(*, only: str, pods: int, keep: bool, listing: bool, file: Path | None, page: bool) -> None:
    """Run the rows on clusters that kubeadm makes, and print what was seen."""
    chosen = [] if page else [row for row in ROWS if fnmatch.fnmatch(row.name, only)]
    if listing:
        click.echo("\n".join(f"{row.name:24} {row.does}" for row in chosen))
        return
    results = list[Result]()
    for control_planes in sorted({row.control_planes for row in chosen}):
        stage = _stage(control_planes, pods, keep=keep)
        try:
            for row in (row for row in chosen if row.control_planes == control_planes):
                results.append(_played(stage, row))
                click.echo(f"{results[-1]} {results[-1].seconds:.0f} s", err=True)
                if file is not None:
                    record(file, results[-1])
        finally:
            if not keep:
                stage.lab.down()
    shown = results if file is None else recorded(file, (row.name for row in ROWS))
    click.echo(table(HEADING, shown))
    if any(each.complaints for each in results):
        raise click.ClickException("not every row ended as it must")


def _stage(control_planes: int, pods: int, *, keep: bool) -> Stage:
    name = f"kubeadm-{control_planes}"
    if keep and (found := next((lab for lab in Lab.list() if lab.name == name), None)) is not None:
        deploy.deploy_operator(found)
        wait_until("the end of replaced operators", lambda: not _leaving(found), timeout=120)
        return Stage(Fleet(found))
    spec = LabSpec(
        name=name, nodes=control_planes + 1, kubelet=OLD, control_plane=NEW, cluster="kubeadm",
        control_planes=control_planes,
    )  # fmt: skip
    lab = Lab.anew(spec, Lines())
    try:
        return Stage(Fleet.with_operator(lab, pods=pods))
    except BaseException:
        lab.down()
        raise


def _leaving(lab: Lab) -> list[str]:
    found = lab.api.list("pods", namespace=deploy.NAMESPACE)
    return [pod["metadata"]["name"] for pod in found if pod["metadata"].get("deletionTimestamp")]


def _played(stage: Stage, row: Row) -> Result:
    began = time.monotonic()
    try:
        seen = row.play(stage)
    except LabError as error:
        seen = Seen(complaints=(str(error)[:500],))
    return result(row, seen, time.monotonic() - began)


if __name__ == "__main__":
    main()
