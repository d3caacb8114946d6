"""The power is cut at every place of a run: each is a copy of the disk from one run, booted and judged.

All of them boot in namespaces, which takes seconds, and some as the machine that they come from, too.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import click

from e2e.cluster import quickly
from e2e.lab.errors import LabError
from e2e.lab.machines.twin import twin_of
from e2e.lab.nodes.node import Node
from e2e.machines import copies, judge
from e2e.machines.copies import Copy
from e2e.machines.judge import Verdict
from e2e.machines.kinds import machines
from e2e.machines.row import Row, Seen
from e2e.machines.stage import NEW, OLD, Stage, end_of

_T = TypeVar("_T")
_BUDGET = "3600s"
"""Kubelet-down budget: the kubelet is down at most of the places, and to take a copy at each takes a while."""

Known = Mapping[str, judge.Digests]


def _cut(name: str, version: str) -> Callable[[Stage], Seen]:
    def play(stage: Stage) -> Seen:
        before = OLD if version == NEW else NEW
        stage.bring(before)
        stage.wait_workload()
        containers = len(stage.settled().running())
        known = {before: judge.digests(stage.node)}
        found = _copied(stage, name, version)
        stage.settled()
        known[version] = judge.digests(stage.node)
        stage.node.power_cut()
        verdicts = dict(_in_namespaces(stage, found, known))
        there = dict(_as_machines(stage, spread(found, stage.most_copies), known))
        stage.node.join_disks()
        stage.node.boot()
        stage.wait_workload()
        wrong = [f"{place}: {why}" for place, verdict in verdicts.items() for why in verdict.complaints]
        wrong += [f"{place} as a machine: {why}" for place, verdict in there.items() for why in verdict.complaints]
        wrong += [
            f"{place} as a machine: {verdict.version}, not {verdicts[place].version}"
            for place, verdict in there.items() if verdict.version != verdicts[place].version
        ]  # fmt: skip
        also = ", ".join(f"`{place}`" for place in there)
        return Seen(
            ended=f"{len(verdicts)} copies booted", containers=containers,
            said=f"{_said(verdicts, before, version)}; {len(there)} of them booted as machines, too: {also}",
            complaints=wrong,
        )  # fmt: skip

    return play


def _copied(stage: Stage, name: str, version: str) -> list[Copy]:
    copies.arm(stage.node, copies.FORWARD)
    try:
        stage.apply(name, version, verify=quickly(kubeletDownBudget=_BUDGET))
        found = list(copies.taken(stage.node, lambda: stage.is_over(name)))
    finally:
        copies.disarm(stage.node)
    ended, message = end_of(stage.cluster.wait_for_end(name))
    stage.delete(name)
    if ended != "Succeeded":
        raise LabError(f"the run of which copies were taken ended as {ended}: {message}")
    return found


def spread(places: Sequence[_T], most: int) -> list[_T]:
    """Return at most so many, evenly spread, with the first and the last."""
    if most >= len(places):
        return list(places)
    return [places[index * (len(places) - 1) // max(1, most - 1)] for index in range(most)]


def _in_namespaces(stage: Stage, found: Sequence[Copy], known: Known) -> Iterator[tuple[str, Verdict]]:
    with twin_of(stage.node) as twin:
        for copy in found:
            image = stage.node.copy_of(copy.image)
            yield copy.place, _verdict(stage, twin, known, copy, boot=partial(twin.boot_from, image))
            twin.end()


def _as_machines(stage: Stage, found: Sequence[Copy], known: Known) -> Iterator[tuple[str, Verdict]]:
    node = stage.node
    for copy in found:
        image = node.copy_of(copy.image)
        yield copy.place, _verdict(stage, node, known, copy, boot=partial(node.boot, image=image))
        node.power_cut()


def _verdict(stage: Stage, node: Node, known: Known, copy: Copy, boot: Callable[[], None]) -> Verdict:
    began = time.monotonic()
    try:
        boot()
        verdict = judge.judged(stage, node, known, agent=False)
    except LabError as error:
        verdict = Verdict("", (str(error)[:300],))
    click.echo(f"{copy.place}: {verdict} in {time.monotonic() - began:.0f} s", err=True)
    return verdict


def _said(verdicts: dict[str, Verdict], before: str, after: str) -> str:
    parts = (("exactly as before", before), ("exactly as after the run", after), ("neither", ""))
    by = {word: [f"`{place}`" for place, one in verdicts.items() if one.version == which] for word, which in parts}
    return "; ".join(f"{word} at {len(places)}: {', '.join(places)}" for word, places in by.items() if places)


ROWS = (
    Row(name="cuts/there", kind=machines.PLAIN, does=f"{OLD} → {NEW}, the power cut at each place",
        play=_cut("cuts-there", NEW)),
    Row(name="cuts/back", kind=machines.PLAIN, does=f"{NEW} → {OLD}, the power cut at each place",
        play=_cut("cuts-back", OLD)),
)  # fmt: skip
