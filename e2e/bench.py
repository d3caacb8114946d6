"""Measure how long a node is without a kubelet, against the floor: a bare kubelet restart plus a bare runtime restart.

Where no hash differs between two versions, the runtime is not restarted, and the floor is the kubelet's restart alone.

Everything is measured on one node, in one run, from inside the node with the same instruments. Only the ratios count,
since absolute times say more about the machine. ``make bench`` prints the tables.
"""

import contextlib
import json
import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

from e2e import floors, preflight_cost
from e2e.cluster import SETTLE, Cluster, conditions
from e2e.lab import Lab, LabSpec
from e2e.lab.host import hostcheck
from e2e.lab.process import wait_until
from e2e.lab.progress import Lines
from e2e.lab.runtimes import RUNTIMES, runtime_named
from e2e.lab.workloads import traffic, workload
from nodeupgrade.api.run_settings import ShieldPolicy
from nodeupgrade.api.task.step import Step
from nodeupgrade.kubelet.probe_delay import exposure
from nodeupgrade.node.journal.journal import Journal, Mark, parse

CONTROL_PLANE = "1.33.13"
SIZES = (20, 60, 110)
TARGET_RATIO, TARGET_RATIO_WITHOUT_RUNTIME, JUDGED_FROM = 1.3, 1.15, 60
TARGET_GROWTH_MS = 2.0
TARGET_SHIELD = 0.03
COMPARED = (ShieldPolicy.AUTO, ShieldPolicy.OFF)
SHIELDS = (ShieldPolicy.AUTO, ShieldPolicy.OFF, ShieldPolicy.OFF, ShieldPolicy.AUTO)
"""The order of one round, there and back twice: neither policy has the better direction or the calmer half."""
TARGET_LOOK_SECONDS = 3.0
REQUESTS = 0.5
"""Requests per second and pod; few, since the client runs on the machine that is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """One upgrade and the two bare restarts right after it. Times in seconds."""

    shield: ShieldPolicy  # ``verify.shield`` of the upgrade
    ours: float  # time without a healthy kubelet
    kubelet: float
    runtime: float
    rewrites: bool  # whether hashes differ, so that the upgrade restarts the runtime
    steps: dict[Step, float]  # how much of that each step took
    containers: int
    load: float  # the machine's load, averaged over the last minute
    seen: traffic.TrafficReport  # what the clients of the pods behind a Service noticed
    bare: traffic.TrafficReport  # what they noticed of the two restarts

    @property
    def ratio(self) -> float:
        """Our time as a multiple of the floor."""
        return self.ours / self.floor

    @property
    def own(self) -> float:
        """Our time above the floor."""
        return self.ours - self.floor

    @property
    def floor(self) -> float:
        """The time of the bare restarts of what the upgrade restarts."""
        return self.kubelet + (self.runtime if self.rewrites else 0.0)

    @property
    def behind_shield(self) -> float:
        """The time of the steps that a shield can delay: raising it, and all that follow."""
        steps = list(self.steps)
        return sum(self.steps[step] for step in steps[steps.index(Step.RAISE_SHIELD) :])


@click.command()
@click.option("--pods", multiple=True, type=int, default=SIZES, show_default=True, help="Pods on the node; repeatable.")
@click.option(
    "--rounds",
    default=3,
    show_default=True,
    help="Rounds of four swaps and bare restarts.",
)
@click.option("--name", default="bench", show_default=True, help="Name of the labs that are made for it, one by one.")
@click.option("--runtime", type=click.Choice([*RUNTIMES]), default="containerd", show_default=True,
              help="Container runtime of the node.")  # fmt: skip
@click.option("--pair", help="Versions, such as 1.33.13-1.35.4.  [default: two between which all hashes differ]")
def main(pods: tuple[int, ...], rounds: int, name: str, runtime: str, pair: str | None) -> None:
    """Measure the time without a kubelet on one real node, and compare it with the floor."""
    hostcheck.require(hostcheck.for_lab())
    looks: dict[int, float] = {}
    between = runtime_named(runtime).eras if pair is None else _versions(pair)
    spec = LabSpec(name=name, nodes=1, kubelet=between[0], control_plane=CONTROL_PLANE, runtime=runtime)
    found = {size: _measure(size, rounds, spec, between[1], looks) for size in pods}
    console = Console(width=min(110, shutil.get_terminal_size().columns))
    for size, swaps in found.items():
        console.print(_table(size, swaps))
    console.print(_steps(found))
    console.print(_noticed(found))
    for verdict in (*_verdicts(found), *_verdicts_on_looks(looks)):
        console.print(verdict)


def _versions(pair: str) -> tuple[str, str]:
    old, dash, new = pair.partition("-")
    if not (old and dash and new):
        raise click.BadParameter(f"{pair!r} is not two versions with a hyphen between them")
    return old, new


def _measure(pods: int, rounds: int, spec: LabSpec, new: str, looks: dict[int, float]) -> list[Swap]:
    lab, old, swaps = Lab.up(spec, Lines()), spec.kubelet, list[Swap]()
    with contextlib.ExitStack() as stack:
        stack.callback(lab.down)
        cluster = Cluster.with_operator(lab, pods=pods)
        lab.apply(workload.service())
        looks[pods] = preflight_cost.seconds(cluster, new)
        for number, shield in enumerate(SHIELDS * rounds):
            version, down = ((new, False), (old, True))[number % 2]
            name_of_run = f"swap-{number + 1}-{shield.lower()}-to-{version.replace('.', '-')}"
            swap = _swap(cluster, name_of_run, version, shield=shield, down=down)
            swaps.append(swap)
            click.echo(
                f"{pods} pods, shield {shield}, to {version}: {swap.ours:.2f} s, "
                f"floor {swap.floor:.2f} s, {len(swap.seen.endpoints_lost)} endpoints lost, "
                f"floor {len(swap.bare.endpoints_lost)}, load {swap.load:.1f}"
            )
    return swaps


def _swap(cluster: Cluster, name: str, version: str, *, shield: ShieldPolicy, down: bool) -> Swap:
    containers = len(cluster.wait_settled().running())
    with traffic.watching(cluster.lab, rate=REQUESTS) as watch:
        spec = {"verify": {"settle": SETTLE, "shield": shield.value}, "allowDowngrade": down, "skewPolicy": "Warn"}
        cluster.apply(name, version, cluster.pre_staged(version), **spec)
        upgrade = cluster.wait_for_end(name)
    if conditions(upgrade)["Succeeded"].get("reason") != "AllNodesUpgraded":
        raise click.ClickException(f"{name} did not upgrade the node: {json.dumps(upgrade['status'])}")
    status = cluster.task()["status"]
    ours, rewrites = float(status["kubelet"]["downSeconds"]), status["containers"].get("rewritten", 0) > 0
    load = os.getloadavg()[0]
    steps = _time_of_steps(cluster)
    cluster.wait_settled()
    with traffic.watching(cluster.lab, rate=REQUESTS) as bare:
        floor = floors.measure(cluster)
        _wait_ready(cluster)
    return Swap(
        shield=shield,
        ours=ours,
        rewrites=rewrites,
        steps=steps,
        containers=containers,
        load=load,
        seen=watch.result,
        bare=bare.result,
        kubelet=floor.kubelet,
        runtime=floor.runtime,
    )


def _wait_ready(cluster: Cluster) -> None:
    """Wait until a freshly started kubelet has run every probe, and found every pod ready."""
    pods = cluster.lab.api.list("pods", namespace=workload.NAMESPACE)
    longest = max(map(exposure, pods)).total_seconds()
    asked = time.monotonic() + longest
    wait_until("every probe to be asked", lambda: time.monotonic() > asked, timeout=longest + 60)
    workload.wait_running(cluster.lab, count=len(pods))


def _time_of_steps(cluster: Cluster) -> dict[Step, float]:
    """Return the time from one record to the next, so that preparing and journaling a step count as part of it."""
    read = cluster.node.exec("sh", "-c", "cat $(ls -t /var/lib/nodeupgrade/runs/*/journal | head -n 1)")
    journal = parse(read.stdout.encode())[0]
    steps = tuple(Step)
    window = steps[steps.index(Step.STOP_KUBELET) : steps.index(Step.START_KUBELET) + 1]
    ends = {step: _done(journal, step) for step in window}
    stopping = journal.first(Step.STOP_KUBELET, Mark.DOING)
    assert stopping is not None
    began = [stopping.monotonic, *ends.values()]
    return {step: end - before for (step, end), before in zip(ends.items(), began, strict=False)}


def _done(journal: Journal, step: Step) -> float:
    record = journal.first(step, Mark.DONE)
    assert record is not None
    return record.monotonic


def _table(pods: int, swaps: Sequence[Swap]) -> Table:
    load = f"load {min(s.load for s in swaps):.0f} to {max(s.load for s in swaps):.0f}"
    title = f"{pods} pods, {swaps[-1].containers} containers, {len(swaps)} swaps, {load}; seconds"
    table = _headed(title, "min", "median", "max")
    rows: tuple[tuple[str, Callable[[Swap], float]], ...] = (
        ("bare kubelet restart until healthy", lambda s: s.kubelet),
        ("bare runtime restart until the CRI answers", lambda s: s.runtime),
        ("our time without a healthy kubelet", lambda s: s.ours),
        ("ratio ours ÷ floor", lambda s: s.ratio),
        ("own share, ours − floor", lambda s: s.own),
    )
    for name, value in rows:
        table.add_row(name, *_spread([value(swap) for swap in swaps]))
    for shield in COMPARED:
        table.add_row(f"ratio with shield: {shield}", *_spread([s.ratio for s in _with(shield, swaps)]))
    return table


def _spread(values: Sequence[float]) -> Iterator[str]:
    return (f"{value:.2f}" for value in (min(values), statistics.median(values), max(values)))


def _steps(found: dict[int, list[Swap]]) -> Table:
    compared = {(pods, shield): _with(shield, swaps) for pods, swaps in found.items() for shield in COMPARED}
    columns = (f"{pods} pods, {shield}" for pods, shield in compared)
    table = _headed("median of each step with verify.shield Auto and Off, milliseconds", *columns)
    for step in next(iter(found.values()))[0].steps:
        medians = (statistics.median(swap.steps[step] for swap in swaps) for swaps in compared.values())
        table.add_row(step, *(f"{1000 * median:.0f}" for median in medians))
    return table


def _noticed(found: dict[int, list[Swap]]) -> Table:
    """Tabulate what clients noticed of all swaps together, and of the bare restarts."""
    table = _headed("noticed by clients: of ours / of the bare restarts", *(f"{pods} pods" for pods in found))
    rows: tuple[tuple[str, Callable[[Sequence[traffic.TrafficReport]], str]], ...] = (
        ("endpoints lost", lambda all_: f"{sum(len(s.endpoints_lost) for s in all_)}"),
        ("endpoint-seconds lost", lambda all_: f"{sum(s.endpoint_seconds_lost for s in all_):.1f}"),
        ("requests failed", lambda all_: f"{sum(s.failed for s in all_)} of {sum(s.requests for s in all_)}"),
        ("slowest answer, s", lambda all_: f"{max(s.slowest for s in all_):.2f}"),
        ("node not Ready, s", lambda all_: f"{sum(s.nodes_not_ready for s in all_):.1f}"),
    )
    for name, told in rows:
        table.add_row(name, *(f"{told([s.seen for s in of])} / {told([s.bare for s in of])}" for of in found.values()))
    return table


def _verdicts(found: dict[int, list[Swap]]) -> list[str]:
    """Compare the results with the goals."""
    ratios = {pods: _median(swaps, lambda s: s.ratio) for pods, swaps in found.items() if pods >= JUDGED_FROM}
    target = (
        TARGET_RATIO if any(s.rewrites for swaps in found.values() for s in swaps) else TARGET_RATIO_WITHOUT_RUNTIME
    )
    verdicts = [
        f"median ratio with {pods} pods {ratio:.2f}, aimed at ≤ {target}: {_met(ratio <= target)}"
        for pods, ratio in ratios.items()
    ]
    for pods, swaps in found.items():
        shielded, without = (_median(_with(shield, swaps), lambda s: s.behind_shield) for shield in COMPARED)
        added = (shielded - without) / _median(swaps, lambda s: s.floor)
        met = _met(added <= TARGET_SHIELD)
        verdicts.append(
            f"the shield adds {added:+.3f} to the ratio with {pods} pods (the steps from raise-shield on), "
            f"aimed at ≤ {TARGET_SHIELD}: {met}"
        )
    small, large = found[min(found)], found[max(found)]
    if (more := large[-1].containers - small[-1].containers) > 0:
        growth = 1000 * (_median(large, lambda s: s.own) - _median(small, lambda s: s.own)) / more
        met = _met(growth < TARGET_GROWTH_MS)
        verdicts.append(f"own share grows by {growth:.1f} ms per container, aimed at < {TARGET_GROWTH_MS}: {met}")
    return verdicts


def _verdicts_on_looks(looks: dict[int, float]) -> Iterator[str]:
    for pods, seconds in looks.items():
        met = _met(seconds <= TARGET_LOOK_SECONDS)
        yield f"whole preflight with {pods} pods {seconds:.2f} s, aimed at ≤ {TARGET_LOOK_SECONDS:.0f} s: {met}"


def _headed(title: str, *headings: str) -> Table:
    table = Table("", title=title)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _with(shield: ShieldPolicy, swaps: Sequence[Swap]) -> list[Swap]:
    return [swap for swap in swaps if swap.shield is shield]


def _median(swaps: Sequence[Swap], value: Callable[[Swap], float]) -> float:
    return statistics.median(value(swap) for swap in swaps)


def _met(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


if __name__ == "__main__":
    main()
