"""NodeUpgrades at telling moments, recorded from the real planner, and how to look at them."""

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path

import yaml

from nodeupgrade.api.json import Json
from tests.contract.kube.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden" / "gitops"


def load() -> dict[str, Json]:
    """Return all recorded objects, by moment; they are the caller's own."""
    found = {path.stem: _parsed(path, path.stat().st_mtime_ns) for path in sorted(GOLDEN.glob("*.yaml"))}
    return copy.deepcopy(found)


@cache
def _parsed(path: Path, changed: int) -> Json:
    """Parse a recorded object, once for each time that it was recorded."""
    del changed
    found: Json = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return found


def golden(name: str) -> Path:
    """Path of one recorded object."""
    return GOLDEN / f"{name}.yaml"


def conditions(body: Json) -> list[Json]:
    """Return the conditions; none if nobody has looked at the object yet."""
    found: list[Json] = body.get("status", {}).get("conditions", [])
    return found


def is_true(kind: str, status: str = "True") -> Callable[[Json], bool]:
    """Tell objects by the status of one condition."""
    return lambda body: any(c["type"] == kind and c["status"] == status for c in conditions(body))


def reason_is(kind: str, reason: str, status: str = "True") -> Callable[[Json], bool]:
    """Tell objects by status and reason of one condition."""
    return lambda body: any((c["type"], c["reason"], c["status"]) == (kind, reason, status) for c in conditions(body))


def in_flight(number: int) -> Callable[[Json], bool]:
    """Tell objects by the number of nodes in flight."""
    return lambda body: body.get("status", {}).get("counts", {}).get("inProgress") == number
