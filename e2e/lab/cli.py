"""The command line of the lab."""

import dataclasses
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import click
from rich.console import Console
from rich.table import Table

from e2e.lab import Lab, LabError, LabSpec, compare, paths
from e2e.lab.binaries import components
from e2e.lab.host import hostcheck
from e2e.lab.progress import Bars, Lines, Progress
from e2e.lab.runtimes import RUNTIMES
from e2e.lab.spec import CLUSTERS, MACHINES
from e2e.lab.workloads import traffic

_EPILOG = """\b
A first session:
  python -m e2e.lab doctor                              what does this machine lack?
  python -m e2e.lab up --nodes 2 --kubelet 1.30.14      minutes the first time, half a minute later on
  python -m e2e.lab kubectl -- get nodes -o wide
  python -m e2e.lab node node1 -- journalctl -u kubelet -n 20
  python -m e2e.lab swap-naively node1 1.33.13          every container restarts: the control experiment
  python -m e2e.lab down                                nothing stays but the cache
"""

_passed_on = {"ignore_unknown_options": True, "allow_interspersed_args": False}
_name = click.option(
    "--name", default=paths.default_name, show_default="$NODEUPGRADE_LAB_NAME or lab", help="Which lab is meant."
)


class _Commands(click.Group):
    """Prints a LabError as one line, without a traceback."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except LabError as error:
            raise click.ClickException(str(error)) from error


@click.group(
    cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
def main() -> None:
    """Real Kubernetes nodes on this Linux machine, for tests and for trying things out.

    A lab is a control plane (etcd, kube-apiserver, kube-controller-manager, kube-scheduler) and nodes, each with its
    own systemd, container runtime and kubelet of an exact version, all in namespaces of their own: nothing listens on,
    or talks to, any address outside. Several labs run side by side by --name.
    """


@contextmanager
def _progress() -> Iterator[Progress]:
    """Show progress as it suits the output, and turn SIGTERM into an exception so that everything is cleaned up."""

    def ended(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, ended)
    if sys.stderr.isatty():
        with Bars() as bars:
            yield bars
    else:
        yield Lines()


@main.command()
@click.option("--install", is_flag=True, help="Install the Debian packages that are missing (apt-get, as root).")
@click.option("--machines", is_flag=True, help="Also what nodes that are virtual machines need.")
def doctor(install: bool, machines: bool) -> None:
    """Say what this machine lacks for a lab, and how to get it."""

    def requirements() -> list[hostcheck.Requirement]:
        more = hostcheck.for_machines() if machines else []
        return [*hostcheck.for_lab(), *hostcheck.for_kubeadm(), *hostcheck.for_building(), *more]

    if install and (packages := hostcheck.install(requirements())):
        click.echo(f"installed {', '.join(packages)}")
    for entry in (found := requirements()):
        click.echo(f"{'ok     ' if entry.found else 'missing'} {entry.what}")
    hostcheck.require(found)


@main.command()
@_name
@click.option("--nodes", default=1, show_default=True, help="Number of nodes; they are called node1, node2, …")
@click.option("--kubelet", default="1.30.14", show_default=True, help="Exact version of the nodes' kubelets.")
@click.option("--control-plane", default="1.33.13", show_default=True, help="Exact version of the control plane.")
@click.option("--runtime", type=click.Choice([*RUNTIMES]), default="containerd", show_default=True,
              help="Container runtime of the nodes.")  # fmt: skip
@click.option("--cluster", type=click.Choice(CLUSTERS), default="plain", show_default=True,
              help="Control plane: processes of this machine, or static pods on node1.")  # fmt: skip
@click.option("--control-planes", default=1, show_default=True, help="How many of kubeadm's nodes have one.")
@click.option("--machine", type=click.Choice(MACHINES), default="namespaces", show_default=True,
              help="Nodes: systems in namespaces, or virtual machines.")  # fmt: skip
def up(
    *,
    name: str,
    nodes: int,
    kubelet: str,
    control_plane: str,
    runtime: str,
    cluster: str,
    control_planes: int,
    machine: str,
) -> None:
    """Make a lab and wait until its nodes are Ready.

    Kubernetes binaries come from $NODEUPGRADE_LAB_BINARIES/VERSION/, the cache, the official release, or are built
    from their Go modules (minutes, once). If it fails or is interrupted, nothing of the lab stays.
    """
    with _progress() as progress:
        spec = LabSpec(
            name=name, nodes=nodes, kubelet=kubelet, control_plane=control_plane, runtime=runtime, cluster=cluster,
            control_planes=control_planes, machine=machine,
        )  # fmt: skip
        Lab.up(spec, progress)
    option = "" if name == paths.default_name() else f" --name {name}"
    click.echo(f"lab {name} is up; try: python -m e2e.lab kubectl{option} -- get nodes")


@main.command()
@click.argument("version", nargs=-1, required=True)
@click.option(
    "--component", "chosen", multiple=True, type=click.Choice(components.COMPONENTS), help="Default: kubelet."
)
def build(version: tuple[str, ...], chosen: tuple[str, ...]) -> None:
    """Only put binaries of VERSION… into the cache."""
    with _progress() as progress:
        found = components.ensure([(name, one) for one in version for name in chosen or ("kubelet",)], progress)
    for path in found.values():
        click.echo(path)


@main.command(name="list")
def list_labs() -> None:
    """List the labs of this machine."""
    for lab in Lab.list():
        click.echo(f"{lab.name}\t{len(lab.nodes)} nodes\tcontrol plane {lab.spec.control_plane}")


@main.command()
@_name
def status(name: str) -> None:
    """Show what runs of a lab."""
    lab = Lab.load(name)
    table = Table("what", "state", "detail", title=f"lab {lab.name} in {lab.directory}")
    for process, alive in lab.control_plane.alive().items():
        table.add_row(
            process, "runs" if alive else "[red]ended[/]", lab.spec.control_plane if process != "etcd" else ""
        )
    readiness = lab.node_readiness() if lab.control_plane.alive().get("kube-apiserver", True) else {}
    for node in lab.nodes.values():
        state = "Ready" if readiness.get(node.name) else "[red]not Ready[/]"
        detail = f"kubelet {node.record.kubelet}, {node.record.runtime}, {node.addresses.address}"
        table.add_row(node.name, state if node.alive else "[red]off[/]", detail)
    Console().print(table)


@main.command(context_settings=_passed_on)
@_name
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def kubectl(name: str, arguments: tuple[str, ...]) -> None:
    """Run kubectl as the lab's administrator.

    For example: kubectl -- get pods --all-namespaces
    """
    lab = Lab.load(name)
    _become(lab.command(str(lab.kubectl_binary), *arguments))


@main.command(context_settings=_passed_on)
@_name
@click.argument("node")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def node(name: str, node: str, command: tuple[str, ...]) -> None:
    """Run a command in NODE as root.

    For example: node node1 -- systemctl status kubelet
    """
    _become(Lab.load(name).node(node).command(*(command[1:] if command[0] == "--" else command)))


def _become(argv: Sequence[str]) -> None:
    sys.stdout.flush()
    os.execvp(argv[0], list(argv))  # noqa: S606 - becoming the command keeps its terminal, signals and exit code


@main.command()
@_name
@click.argument("node")
def snapshot(name: str, node: str) -> None:
    """Print what runs on NODE as JSON.

    Every container and sandbox with its identity, state, times, PIDs and stored hash.
    """
    click.echo(json.dumps(dataclasses.asdict(Lab.load(name).node(node).snapshot()), indent=2))


@main.command()
@_name
@click.argument("node")
@click.argument("version")
def swap_naively(name: str, node: str, version: str) -> None:
    """Swap NODE's kubelet the usual way.

    Stop, replace by VERSION, start, and show what restarted. This is the control experiment: across hash eras it
    restarts every container.
    """
    chosen = Lab.load(name).node(node)
    before = chosen.snapshot()
    with _progress() as progress:
        chosen.swap_naively(version, progress)
    after = chosen.settled()
    lost = [entry for entry in before.running() if entry.id not in {other.id for other in after.running()}]
    for difference in compare(before, after):
        if difference.change in {"gone", "new", "state"}:
            click.echo(str(difference))
    click.echo(f"{len(lost)} of {len(before.running())} running containers did not survive the swap to {version}")


@main.command()
@_name
@click.option("--seconds", type=float, default=None, help="Stop after so long; default: when interrupted.")
def watch_traffic(name: str, seconds: float | None) -> None:
    """Tell what the clients of the lab's Services notice.

    Follows EndpointSlices, pods and nodes and asks every endpoint for a page twice a second, until it is interrupted
    (or for --seconds). Prints endpoints lost and for how long, pods and nodes that were not Ready, failed requests and
    the slowest answer, as JSON.
    """
    with traffic.watching(Lab.load(name)) as watch:
        click.echo("watching; interrupt to see the report", err=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait(seconds)
    click.echo(json.dumps(dataclasses.asdict(watch.result), indent=2))


@main.command()
@_name
def deploy_operator(name: str) -> None:
    """Build, import and apply the operator."""
    with _progress() as progress:
        importlib.import_module("e2e.lab.cluster.deploy").deploy_operator(Lab.load(name), progress)


@main.command()
@_name
def down(name: str) -> None:
    """Remove a lab and everything of it.

    Processes, mounts, namespaces, cgroups and files go; the cache stays. Harmless if there is no such lab.
    """
    Lab(LabSpec(name=name)).down()
    click.echo(f"nothing is left of lab {name}")
