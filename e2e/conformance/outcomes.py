"""What became of specs, as ginkgo reports it, and how two nodes compare."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_SAID = 160  # characters
_LABELS = re.compile(r"(?<=\S) \[\w+\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one spec."""

    area: str  # what it is about, such as "[sig-node] Pods"
    state: str  # PASSED, FAILED or SKIPPED
    seconds: float
    said: str = ""  # the first line of why it did not pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One spec on both nodes."""

    area: str
    spec: str
    upgraded: str  # its state on the node that was upgraded in place
    fresh: str  # and on the other
    seconds: tuple[float, float]
    said: str  # why it did not pass, on the upgraded node if on both

    @property
    def same(self) -> bool:
        """Whether it is no matter where it runs."""
        return self.upgraded == self.fresh


def read(report: Path, chosen: Collection[str] | None = None) -> dict[str, Outcome]:
    """Return the outcomes of a report of ginkgo by full text.

    Args:
        report: its JSON.
        chosen: which specs; by default, those that were not filtered out or skipped.
    """
    found = dict(_specs(json.loads(report.read_text())))
    if chosen is None:
        return {name: outcome for name, outcome in found.items() if outcome.state != SKIPPED}
    return {name: outcome for name, outcome in found.items() if name in chosen}


def _specs(suites: list[dict[str, Any]]) -> Iterator[tuple[str, Outcome]]:
    for spec in (spec for suite in suites for spec in suite["SpecReports"] or () if spec["LeafNodeType"] == "It"):
        name = " ".join((*spec["ContainerHierarchyTexts"], spec["LeafNodeText"]))
        area = _LABELS.sub("", spec["ContainerHierarchyTexts"][0])
        state = spec["State"] if spec["State"] in {PASSED, SKIPPED} else FAILED
        said = str(spec.get("Failure", {}).get("Message", "")).strip().partition("\n")[0][:_SAID]
        yield name, Outcome(area=area, state=state, seconds=round(spec["RunTime"] / 1e9, 1), said=said)


def beside(upgraded: Mapping[str, Outcome], fresh: Mapping[str, Outcome]) -> list[Row]:
    """Return the outcomes on both nodes, spec by spec.

    Raises:
        KeyError: one of them has not run on both.
    """
    if missing := upgraded.keys() ^ fresh.keys():
        raise KeyError(f"not run on both nodes: {', '.join(sorted(missing))}")
    return [
        Row(
            area=there.area,
            spec=name,
            upgraded=there.state,
            fresh=fresh[name].state,
            seconds=(there.seconds, fresh[name].seconds),
            said=there.said or fresh[name].said,
        )
        for name, there in sorted(upgraded.items())
    ]
