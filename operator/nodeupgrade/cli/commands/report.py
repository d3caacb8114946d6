"""`nodeupgrade report`: a rollout as one page, for a change ticket."""

import click

from nodeupgrade.cli.console import write
from nodeupgrade.cli.inputs import cluster_objects
from nodeupgrade.cli.inputs.cluster import World, on_cluster
from nodeupgrade.cli.inputs.completion import rollouts
from nodeupgrade.cli.pages.html import html
from nodeupgrade.cli.pages.markdown import markdown
from nodeupgrade.cli.program import OK, command
from nodeupgrade.cli.reports.rollout import rollout_report
from nodeupgrade.cluster.kube_api import KubeApi

_FORMATS = {"html": html, "markdown": markdown}


@command(
    "report",
    "nodeupgrade report kubelet-1-33-13 > kubelet-1-33-13.html",
    "nodeupgrade report kubelet-1-33-13 -o markdown > kubelet-1-33-13.md",
)
@click.argument("name", shell_complete=rollouts)
@click.option(
    "--output", "-o", type=click.Choice(list(_FORMATS)), default="html", show_default=True, help="Output format."
)
@on_cluster
async def report_command(world: World, kube: KubeApi, *, name: str, output: str) -> int:
    """Print a rollout as one page to hand over, such as in a change ticket.

    Versions and digests, waves with their times and who approved them, failures with their cause, every node with its
    time without a kubelet and its restarts, and, in HTML, a picture of the course over time. The HTML page is a single
    file without scripts, for screens and for print. A rollout that has not ended is reported as it stands, and the
    page says so; of one that ended, nodes that have left the cluster are reported too, as long as it exists.

    It lists at most 5,000 nodes, failed ones first, and repeats the messages of 100; such a page has about 2 MB.
    """
    upgrade = await cluster_objects.upgrade(kube, name)
    tasks, unreadable = await cluster_objects.readable_tasks(kube)
    write(_FORMATS[output](rollout_report(upgrade, tasks, world.now(), unreadable)))
    return OK
