"""Reads stories: text files that tell one rollout each, in words that need no knowledge of the program.

How to write one is told in ``stories/README.md``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from nodeupgrade.api.duration import parse_duration
from nodeupgrade.api.json import Json

STORIES = {path.stem: path for path in sorted((Path(__file__).parent / "stories").glob("*.txt"))}
"""Their files, by name."""

NARRATION = "Narration:"
_SECTION = re.compile(
    r"^(?P<title>Nodes|Happenings|Clock|API server|Ends after|Told|NodeUpgrade [^\n:]+):(?P<rest>[^\n]*)\n"
    r"(?P<body>(?:[ \t]+[^\n]*\n|\n)*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Happening:
    """Something that somebody does, or that befalls a node, ``at`` a time or ``when`` something is so."""

    what: str
    at: timedelta | None = None
    when: str = ""

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Applied:
    """A NodeUpgrade and when it is applied."""

    name: str
    spec: Json
    at: timedelta = timedelta()


@dataclass
class Story:
    """One file."""

    path: Path
    text: str
    clock: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    dated: bool = False
    server: str = "v1.33.13"
    ends: timedelta = timedelta(days=30)
    every_step: bool = False
    nodes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    upgrades: list[Applied] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)

    @property
    def scenario(self) -> str:
        """Everything before the narration."""
        return self.text[: self.text.index(NARRATION)]

    @property
    def narration(self) -> str:
        """What is expected to be told."""
        return self.text[self.text.index(NARRATION) + len(NARRATION) :].lstrip("\n")

    def rewrite(self, narration: str) -> None:
        """Expect another narration from now on."""
        self.path.write_text(f"{self.scenario}{NARRATION}\n{narration}", encoding="utf-8")


def read_story(path: Path) -> Story:
    """Read one story.

    Raises:
        ValueError: A line is not understood.
    """
    text = path.read_text(encoding="utf-8")
    story = Story(path=path, text=text)
    for section in _SECTION.finditer(story.scenario):
        _read_section(story, section["title"], section["rest"].strip(), section["body"])
    return story


def _read_section(story: Story, title: str, rest: str, body: str) -> None:
    lines = [line.strip() for line in body.splitlines() if line.strip()]
    match title.split():
        case ["Nodes"]:
            for line in lines:
                names, _, states = line.partition(":")
                for name in _names(names):
                    story.nodes[name] = tuple(state.strip() for state in states.split(",") if state.strip())
        case ["NodeUpgrade", name, *when]:
            at = parse_duration(when[-1]) if when else timedelta()
            story.upgrades.append(Applied(name=name.rstrip(","), spec=yaml.safe_load(body) or {}, at=at))
        case ["Happenings"]:
            story.happenings += map(_happening, lines)
        case ["Clock"]:
            story.clock, story.dated = datetime.fromisoformat(rest), True
        case ["API", "server"]:
            story.server = rest
        case ["Ends", "after"]:
            story.ends = parse_duration(rest)
        case ["Told"]:
            story.every_step = rest == "every step"
        case _:
            raise ValueError(f"{story.path.name}: {title!r} is no section of a story")


def _names(text: str) -> Iterator[str]:
    """Read ``node-1`` or ``node-1 to node-4``."""
    first, _, last = (part.strip() for part in text.partition(" to "))
    if not last:
        yield first
        return
    stem, start = first.rsplit("-", 1)
    width = len(start) if start.startswith("0") else 0
    for number in range(int(start), int(last.rsplit("-", 1)[1]) + 1):
        yield f"{stem}-{number:0{width}}" if width else f"{stem}-{number}"


def _happening(line: str) -> Happening:
    if found := re.fullmatch(r"at (\w+): (.*)", line):
        return Happening(at=parse_duration(found[1]), what=found[2])
    if found := re.fullmatch(r"when (.*?): (.*)", line):
        return Happening(when=found[1], what=found[2])
    return Happening(at=timedelta(), what=line)


def at_path(path: str, value: Any) -> Json:  # Any: YAML
    """Nest a value: ``strategy.maxConcurrent`` and 3 make ``{strategy: {maxConcurrent: 3}}``."""
    head, _, rest = path.partition(".")
    return {head: at_path(rest, value) if rest else value}
