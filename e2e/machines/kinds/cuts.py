"""The power is cut at every place of a run: each is a copy of the disk from one run, booted and judged."""

import time
from collections.abc import Callable, Iterator, Sequence

import click

from e2e.cluster import conditions
from e2e.lab.errors import LabError
from e2e.machines import copies, judge
from e2e.machines.copies import Copy
from e2e.machines.judge import Verdict
from e2e.machines.kinds import machines
from e2e.machines.row import Row, Seen
from e2e.machines.stage import NEW, OLD, Stage, end_of
from nodeupgrade.domain.node.failpoints import Failpoint


def _cut(name: str, version: str) -> Callable[[Stage], Seen]:
    def play(stage: Stage) -> Seen:
        before = OLD if version == NEW else NEW
        stage.bring(before)
        containers = len(stage.settled().running())
        known = {before: judge.digests(stage)}
        found = _copied(stage, name, version)
        stage.settled()
        known[version] = judge.digests(stage)
        verdicts = dict(_judged(stage, found, known))
        wrong = [f"{place}: {why}" for place, verdict in verdicts.items() for why in verdict.complaints]
        return Seen(
            ended=f"{len(verdicts)} copies booted", containers=containers,
            said=_said(verdicts, before, version), complaints=wrong,
        )  # fmt: skip

    return play


def _copied(stage: Stage, name: str, version: str) -> list[Copy]:
    copies.arm(stage.node, spread(copies.FORWARD, stage.most_copies))
    try:
        stage.apply(name, version)
        found = list(copies.taken(stage.node, lambda: _is_over(stage, name)))
    finally:
        copies.disarm(stage.node)
    ended, message = end_of(stage.cluster.wait_for_end(name))
    stage.delete(name)
    if ended != "Succeeded":
        raise LabError(f"the run of which copies were taken ended as {ended}: {message}")
    return found


def _is_over(stage: Stage, name: str) -> bool:
    return conditions(stage.cluster.get(name)).get("Succeeded", {}).get("status") in {"True", "False"}


def spread(places: Sequence[Failpoint], most: int | None) -> list[Failpoint]:
    """Return at most so many places, evenly spread, with the first and the last; all by default."""
    if most is None or most >= len(places):
        return list(places)
    return [places[index * (len(places) - 1) // max(1, most - 1)] for index in range(most)]


def _judged(stage: Stage, found: Sequence[Copy], known: dict[str, judge.Digests]) -> Iterator[tuple[str, Verdict]]:
    node = stage.node
    node.power_cut()
    for copy in found:
        began = time.monotonic()
        try:
            node.boot(image=node.copy_of(copy.image))
            verdict = judge.judged(stage, known)
        except LabError as error:
            verdict = Verdict("", (str(error)[:300],))
        node.power_cut()
        click.echo(f"{copy.place}: {verdict} in {time.monotonic() - began:.0f} s", err=True)
        yield copy.place, verdict
    node.boot()
    stage.wait_workload()


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
