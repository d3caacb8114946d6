"""What a seed stands for: a node, and the swaps that it goes through."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.faults.fault import Fault
from e2e.faults.kinds import FAULTS, manifests
from e2e.lab.binaries.versions import Version
from e2e.lab.runtimes import runtime_named

SIZES = (12, 18, 24, 30)
FAULT_IN = 4
"""One swap in so many meets a fault."""
LINKLESS = (1, 16)
"""The first release whose kubelet can start pods anew that have no ``metadata.selfLink``."""
SOURCES = ("preStaged", "preStaged", "image", "url")
SETTLES = ("4s", "8s", "20s")
CALM = ("quiet", "quiet", "crash loops")
"""Shapes beside a fault, which may need to see the run begin at once; one that reboots waits until all pods run."""
BUSY = ("quiet", "quiet", "crash loops", "one pod every 5 s", "one pod every 1.5 s", "a Deployment scaled up and down",
        "CronJobs each minute", "images patched in place")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two versions of the kubelet between which a node goes there and back."""

    runtime: str
    old: str
    new: str
    all_change: bool  # whether every container's hash does
    weight: int
    flags: bool = False  # whether the newer one starts without a flag that the older one needs


PAIRS = (
    Pair(runtime="containerd", old="1.30.14", new="1.33.13", all_change=True, weight=6),
    Pair(runtime="containerd", old="1.30.14", new="1.34.4", all_change=True, weight=3),
    Pair(runtime="containerd", old="1.33.13", new="1.34.4", all_change=False, weight=3),
    Pair(runtime="containerd", old="1.20.15", new="1.33.13", all_change=True, weight=3, flags=True),
    Pair(runtime="containerd", old="1.20.15", new="1.30.14", all_change=False, weight=2, flags=True),
    Pair(runtime="containerd", old="1.17.17", new="1.30.14", all_change=False, weight=1, flags=True),
    Pair(runtime="containerd", old="1.30.14", new="1.36.3", all_change=True, weight=2),
    Pair(runtime="containerd", old="1.33.13", new="1.36.3", all_change=False, weight=1),
    Pair(runtime="containerd-2", old="1.30.14", new="1.33.13", all_change=True, weight=4),
    Pair(runtime="containerd-2", old="1.30.14", new="1.34.4", all_change=True, weight=3),
    Pair(runtime="containerd-2", old="1.33.13", new="1.34.4", all_change=False, weight=1),
    Pair(runtime="containerd-2", old="1.33.13", new="1.35.4", all_change=False, weight=2),
    Pair(runtime="containerd-2", old="1.30.14", new="1.36.3", all_change=True, weight=2),
    Pair(runtime="containerd-2", old="1.34.4", new="1.36.3", all_change=False, weight=1),
    Pair(runtime="crio", old="1.30.14", new="1.33.13", all_change=True, weight=4),
    Pair(runtime="crio", old="1.30.14", new="1.34.4", all_change=True, weight=2),
    Pair(runtime="crio", old="1.33.13", new="1.34.4", all_change=False, weight=1),
    Pair(runtime="docker", old="1.15.0", new="1.17.17", all_change=True, weight=3),
    Pair(runtime="docker", old="1.17.17", new="1.20.15", all_change=False, weight=2),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """A node, and what runs on it all the time."""

    seed: int
    pair: Pair
    mixed: int  # pods of the lab's workload
    drawn: int  # pods drawn at random


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSwap:
    """One upgrade of a node."""

    number: int  # from 1
    shape: str  # what happens besides
    fault: Fault | None
    source: str
    settle: str
    shield: str
    guard: str
    cordon: bool
    files: bool  # whether the kubelet's configuration and a drop-in go along


def node(seed: int, runtimes: Sequence[str]) -> DrawnNode:
    """Draw a node with one of these runtimes."""
    rng = random.Random(seed)  # noqa: S311 - a trial, not a secret
    pairs = [pair for pair in PAIRS if pair.runtime in runtimes]
    [pair] = rng.choices(pairs, [pair.weight for pair in pairs])
    size = rng.choice(SIZES)
    return DrawnNode(seed=seed, pair=pair, mixed=size // 2, drawn=size - size // 2)


def swap(of: DrawnNode, number: int) -> DrawnSwap:
    """Draw a node's swap; it leads to the version of the pair that the node has not."""
    rng = random.Random(f"{of.seed}/{number}")  # noqa: S311
    faults = _faults(of.pair)
    fault = rng.choice(faults) if faults and rng.randrange(FAULT_IN) == 0 else None
    calm = ("quiet",) if fault and fault.reboots else CALM
    settings = random.Random(f"{of.seed}/{number}/settings")  # noqa: S311
    # A NodeUpgrade names an image by its digest, and no lab has a registry that such a runtime could ask for it.
    with_images = runtime_named(of.pair.runtime).keeps_digests
    busy = [shape for shape in BUSY if with_images or shape != "images patched in place"]
    sources = [each for each in SOURCES if with_images or each != "image"]
    return DrawnSwap(
        number=number,
        shape=rng.choice(calm if fault else busy),
        fault=fault,
        source="preStaged" if fault else rng.choice(sources),
        settle="4s" if fault else rng.choice(SETTLES),
        shield="Auto" if fault else rng.choice(("Auto", "Auto", "Auto", "Off")),
        guard="Auto" if fault else settings.choice(("Auto", "Off", "Off", "Off")),
        cordon=fault is not None or settings.randrange(6) != 0,
        files=fault is None and of.pair.runtime != "docker" and rng.randrange(5) == 0,
    )


def _faults(pair: Pair) -> list[Fault]:
    """Return the faults that runs between these versions can meet: many happen while hashes are rewritten."""
    runtime = runtime_named(pair.runtime)
    if not pair.all_change:
        return []
    # After a reboot, a kubelet 1.15 dies of each pod of an API server that knows no selfLink (1.20+), and starts none.
    boots = Version.parse(pair.old).release >= LINKLESS
    # The probes of the pods that are drawn ask at that port: a kubelet would rightly end them.
    fit = [fault for fault in FAULTS if fault.needs(runtime) and not fault.name.startswith("port/health")]
    fit = [fault for fault in fit if boots or not fault.reboots]
    return fit if runtime.eras == (pair.old, pair.new) else [each for each in fit if each not in manifests.FAULTS]
