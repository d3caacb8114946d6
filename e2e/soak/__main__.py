"""Swap kubelets on real nodes that are drawn at random, until something is not as it must be.

``python -m e2e.soak --seed 7 --nodes 3 --swaps 20 --json FILE`` draws the nodes of the seeds 7, 8 and 9, and swaps the
kubelet of each 20 times, there and back. ``--swap 13`` repeats one swap of a seed on a node as it was drawn.
Each swap is a line of the file. A swap that is not as it must be ends the soak, and its lab stays, with the journal,
unless ``--discard`` is given, as in CI.
"""

import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from e2e import pods
from e2e.busy import SHAPES
from e2e.cluster import Cluster, Object
from e2e.faults.along import carrying
from e2e.faults.fault import UP, Fault, upgrade_under
from e2e.faults.oracle import FLAGS_LEFT_OUT
from e2e.faults.run import FaultRun, Harm
from e2e.lab import Lab, LabError, LabSpec
from e2e.lab.binaries.versions import Version
from e2e.lab.cluster.podstatus import runs
from e2e.lab.progress import Lines
from e2e.lab.runtimes import RUNTIMES
from e2e.naive import wait_restarted
from e2e.soak import draw, playable
from e2e.soak.draw import DrawnNode, DrawnSwap

CONTROL_PLANE = "1.33.13"
SIDECARS = (1, 29)
"""The first release whose kubelet knows restartable init containers."""
STARTING_SECONDS = 90.0
ENDS_BUSY = frozenset({"Succeeded", "RolledBack", "Refused"})
"""How a swap may end on a node that is never quiet: with nothing lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One swap, as it is recorded."""

    seed: int
    swap: int
    runtime: str
    runtime_version: str
    old: str
    new: str
    pods: int
    shape: str
    fault: str
    reboots: bool  # whether the fault ends every container, by a reboot
    source: str
    settle: str
    shield: str
    guard: str
    cordon: bool
    files: bool
    containers: int
    sandboxes: int
    ended: str
    why: str  # what the node said, unless it was upgraded
    attempts: int
    kubelet_down_seconds: float | None
    row_seconds: int
    load: float
    disturbed: tuple[str, ...]
    complaints: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Naive:
    """A swap of a drawn node as people do it, as it is recorded."""

    seed: int
    runtime: str
    old: str
    new: str
    containers: int
    restarted: int
    naive: bool = True


@click.command()
@click.option("--seed", type=int, default=lambda: int(time.time()), show_default="the time", help="Of the first node.")
@click.option("--nodes", default=1, show_default=True, help="Nodes, one after the other.")
@click.option("--swaps", default=20, show_default=True, help="Swaps of each node.")
@click.option("--swap", "only", type=int, help="Only this swap of the node.")
@click.option("--from", "first", help="The kubelet that the first node begins with; by default, the older of its two.")
@click.option("--minutes", type=float, help="Begin no swap after so many minutes.")
@click.option("--naive", is_flag=True, help="In the end swap the kubelet of each node the usual way, for comparison.")
@click.option("--discard", is_flag=True, help="Let no lab stay, not even that of a swap that is not as it must be.")
@click.option("--runtime", "runtimes", multiple=True, type=click.Choice([*RUNTIMES]), default=("containerd", "docker"),
              show_default=True, help="Runtimes of the nodes; repeatable.")  # fmt: skip
@click.option("--name", default="soak", show_default=True, help="Name of the labs that are made for it, one by one.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Append a line of JSON per swap to this file.")
def main(
    *,
    seed: int,
    nodes: int,
    swaps: int,
    only: int | None,
    first: str | None,
    minutes: float | None,
    naive: bool,
    discard: bool,
    runtimes: tuple[str, ...],
    name: str,
    file: Path | None,
) -> None:
    """Swap kubelets on nodes that are drawn at random."""
    until = None if minutes is None else time.monotonic() + 60 * minutes
    for each in range(seed, seed + nodes):
        drawn = draw.node(each, runtimes)
        numbers = range(1, swaps + 1) if only is None else (only,)
        chosen = [draw.swap(drawn, number) for number in numbers]
        for line in _soaked(drawn, chosen, name, first or drawn.pair.old, until, naive=naive, discard=discard):
            said = {name: value for name, value in asdict(line).items() if value not in ("", (), None)}
            text = json.dumps(said, ensure_ascii=False)
            click.echo(text)
            if file is not None:
                with file.open("a") as stream:
                    stream.write(f"{text}\n")
        if until is not None and time.monotonic() > until:
            break


def _soaked(
    drawn: DrawnNode,
    swaps: list[DrawnSwap],
    name: str,
    first: str,
    until: float | None,
    *,
    naive: bool,
    discard: bool,
) -> Iterator[Line | Naive]:
    """Make a node and swap its kubelet; the lab of a swap that is not as it must be stays, unless ``discard``.

    Raises:
        ClickException: a swap was not.
    """
    pair = drawn.pair
    spec = LabSpec(name=name, nodes=1, kubelet=first, control_plane=CONTROL_PLANE, runtime=pair.runtime)
    lab = Lab.anew(spec, Lines())
    with ExitStack() as stack:
        stack.callback(lab.down)
        cluster = Cluster.with_operator(lab, pods=drawn.mixed, oldest=pair.old)  # the same pods whatever it begins with
        count = drawn.mixed + _start_drawn(cluster, drawn)
        known = dict[tuple[str, str], str]()
        for swap in swaps:
            if until is not None and time.monotonic() > until:
                break
            line = _play(cluster, drawn, swap, known, count)
            yield line
            if line.complaints:
                if not discard:
                    stack.pop_all()
                stays = "" if discard else f"The lab {name} stays; "
                again = f"python -m e2e.soak --seed {line.seed} --swap {line.swap} --from {line.old}"
                raise click.ClickException(f"{'; '.join(line.complaints)}. {stays}`{again}` repeats this swap")

        if naive and not drawn.pair.flags:  # people would have to edit the flags, too
            yield _swap_naively(cluster, drawn)


def _swap_naively(cluster: Cluster, drawn: DrawnNode) -> Naive:
    """Swap the kubelet to the version that the node has not, as people do, and count what that restarts."""
    node, old = cluster.node, cluster.kubelet_version()
    new = drawn.pair.new if old == drawn.pair.old else drawn.pair.old
    before = {container.id for container in node.settled(quiet=3).running()}
    node.swap_naively(new)
    if drawn.pair.all_change:
        wait_restarted(node, before)
    after = {container.id for container in node.settled(quiet=8).running()}
    return Naive(
        seed=drawn.seed,
        runtime=drawn.pair.runtime,
        old=old,
        new=new,
        containers=len(before),
        restarted=len(before - after),
    )


def _start_drawn(cluster: Cluster, drawn: DrawnNode) -> int:
    """Start the pods drawn at random; what the API server refuses or cannot run is left out. Return how many run."""
    lab, pair = cluster.lab, drawn.pair
    sidecars = Version.parse(pair.old).release >= SIDECARS
    chance = random.Random(drawn.seed)  # noqa: S311 - a trial, not a secret
    made = playable.drawn(chance, drawn.drawn, cluster.node.name, sidecars=sidecars)
    names = [pod["metadata"]["name"] for pod in made if _created(lab, pod)]
    deadline = time.monotonic() + STARTING_SECONDS
    while (waiting := _not_running(lab, names)) and time.monotonic() < deadline:
        time.sleep(1)
    if waiting:
        pods.forget(cluster, *waiting)
        for name in waiting:
            pods.wait_ended(cluster, name)
    return len(names) - len(waiting)


def _created(lab: Lab, pod: Object) -> bool:
    try:
        lab.api.create("pods", pod, namespace=pods.NAMESPACE)
    except LabError:
        return False
    return True


def _not_running(lab: Lab, names: list[str]) -> list[str]:
    found = {pod["metadata"]["name"]: pod for pod in lab.api.list("pods", namespace=pods.NAMESPACE)}
    return [name for name in names if name not in found or not runs(found[name])]


def _play(cluster: Cluster, drawn: DrawnNode, swap: DrawnSwap, known: dict[tuple[str, str], str], count: int) -> Line:
    old, pair = cluster.kubelet_version(), drawn.pair
    new = pair.new if old == pair.old else pair.old
    with _artifact(cluster, swap.source, new) as artifact:
        row = upgrade_under(
            cluster,
            _fault(swap, cluster.node.name),
            known,
            to=new,
            artifact=artifact,
            all_change=pair.all_change,
            stays=FLAGS_LEFT_OUT if pair.flags else frozenset(),
        )
    return Line(
        seed=drawn.seed,
        swap=swap.number,
        runtime=drawn.pair.runtime,
        runtime_version=cluster.runtime_version(),
        old=old,
        new=new,
        pods=count,
        shape=swap.shape,
        fault=swap.fault.name if swap.fault else "",
        reboots=swap.fault is not None and swap.fault.reboots,
        source=swap.source,
        settle=swap.settle,
        shield=swap.shield,
        guard=swap.guard,
        cordon=swap.cordon,
        files=swap.files,
        containers=row.containers,
        sandboxes=row.sandboxes,
        ended=row.ended,
        why="" if row.ended == "Succeeded" else row.notes,
        attempts=row.attempts,
        kubelet_down_seconds=float(row.down) if row.down else None,
        row_seconds=round(row.seconds),
        load=round(os.getloadavg()[0], 1),
        disturbed=tuple(row.disturbed),
        complaints=tuple(row.complaints),
    )


def _artifact(cluster: Cluster, source: str, version: str) -> AbstractContextManager[Object]:
    """Return the new kubelet as a NodeUpgrade names it, there as long as the context lasts."""
    if source == "url":
        return cluster.url(version)
    return nullcontext(cluster.image(version) if source == "image" else cluster.pre_staged(version))


def _fault(swap: DrawnSwap, node: str) -> Fault:
    """Return what happens to a swap as one fault: what was drawn, besides what always happens on its node."""
    shape = SHAPES[swap.shape]
    if swap.fault is not None:
        return replace(swap.fault, harm=_together(shape, swap.fault.harm))
    spec: Object = {"verify": {"settle": swap.settle, "shield": swap.shield, "readinessGuard": swap.guard}}
    if not swap.cordon:
        spec["nodes"] = {"names": [node], "cordon": False}
    harm = carrying(shape) if swap.files else shape
    return Fault(f"soak/{swap.number}", harm, UP if swap.shape == "quiet" else ENDS_BUSY, spec=spec)


def _together(*harms: Harm) -> Harm:
    """Let several things happen to one run."""

    def harm(run: FaultRun) -> Iterator[None]:
        happening = [each(run) for each in harms]
        for _ in range(2):
            for each in happening:
                next(each)
            yield
        for each in reversed(happening):
            next(each, None)

    return harm


if __name__ == "__main__":
    main()
