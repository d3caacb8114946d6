"""Tells a counterexample in the format of ``tests/scenario/rollout/stories``, with every step of it."""

import re
from collections.abc import Sequence
from datetime import timedelta

import yaml

from nodeupgrade.api.duration import render_duration
from tests.model.search import Found
from tests.model.steps import Model, Transition

CALLS = ("reconcile ", "sweep", "the former leader")


def tell(model: Model, found: Found) -> str:
    """Tell how a rule is broken."""
    return narrated(model, found, replayed(model, found.path))


def narrated(model: Model, found: Found, gone: Sequence[Transition]) -> str:
    """Tell of a way that was gone."""
    happenings, narration = list[str](), list[str]()
    for at, each in timed(gone):
        moment = render_duration(timedelta(seconds=at))
        if each.words.startswith(CALLS):
            narration += [f"{moment:>8}  {line}" for line in each.told] or [f"{moment:>8}  ({each.words})"]
            if ";" in each.words or ", up to write" in each.words:
                happenings.append(f"at {moment}: {each.words}")
                narration[-1:] = [f"{moment:>8}  -- {each.words}"]
        elif not re.fullmatch(r"\d+ seconds pass", each.words):
            happenings.append(f"at {moment}: {each.words}")
            narration.append(f"{moment:>8}  -- {each.words}")
        narration += [f"{moment:>8}  !! {rule}: {problem}" for rule, problem in each.wrong]
    if not any("!!" in line for line in narration):
        narration.append(f"          !! {found.rule}: {found.problem}")
    title = f"{found.rule[0].upper()}{found.rule[1:]}"
    sections = [title, "=" * len(title), "", f"{found.problem[0].upper()}{found.problem[1:]}.", "", *_setting(model)]
    return "\n".join(
        [*sections, "", "Happenings:", *(f"  {each}" for each in happenings), "", "Narration:", *narration]
    )


def _setting(model: Model) -> list[str]:
    world, lines = model.world, ["Nodes:"]
    for name, labels in world.labels.items():
        own = ", ".join(f"{key}={value}" for key, value in labels.items() if key != "pool")
        lines.append(f"  {name}: {own}" if own else f"  {name}")
    for name, spec in world.specs.items():
        text = yaml.safe_dump(dict(spec), default_flow_style=None, sort_keys=False, width=110)
        lines += ["", f"NodeUpgrade {name}:", *(f"  {line}" for line in text.splitlines())]
    return lines


def replayed(model: Model, path: tuple[str, ...]) -> list[Transition]:
    """Go a way again from the beginning."""
    state, gone = model.world.start(), list[Transition]()
    for words in path:
        each = next(each for each in model.transitions(state, disturbed=True) if each.words == words)
        gone.append(each)
        state = each.state
    return gone


def timed(gone: Sequence[Transition]) -> list[tuple[int, Transition]]:
    """Add the seconds since the beginning."""
    at, told = 0, list[tuple[int, Transition]]()
    for each in gone:
        told.append((at, each))
        passed = re.match(r"(\d+) seconds pass", each.words)
        at += int(passed[1]) if passed else 25230 if each.words == "seven hours pass" else 1
    return told
