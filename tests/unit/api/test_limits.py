"""The limits that texts and lists are cut to are those of the CustomResourceDefinitions."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from nodeupgrade.api import limits

CRDS = Path(__file__).parents[3] / "crds"


def limit(kind: str, path: str) -> int:
    """The limit of a field, by its path: `status.waves[].name`."""
    document = yaml.safe_load((CRDS / f"{kind}.yaml").read_text(encoding="utf-8"))
    node: dict[str, Any] = document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for word in path.split("."):
        node = node["properties"][word.removesuffix("[]")]
        node = node["items"] if word.endswith("[]") else node
    found = node.get("maxLength", node.get("maxItems"))
    assert isinstance(found, int), path
    return found


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("nodeupgradetasks", "spec.actionMessage", limits.MESSAGE_LENGTH),
        ("nodeupgradetasks", "spec.verdict.message", limits.MESSAGE_LENGTH),
        ("nodeupgradetasks", "status.message", limits.MESSAGE_LENGTH),
        ("nodeupgradetasks", "status.hazards[].detail", limits.MESSAGE_LENGTH),
        ("nodeupgradetasks", "status.steps[].detail", limits.STEP_DETAIL_LENGTH),
        ("nodeupgradetasks", "status.guard.detail", limits.GUARD_DETAIL_LENGTH),
        ("nodeupgradetasks", "status.preview.wouldRestartList[].why", limits.FORECAST_LENGTH),
        ("nodeupgradetasks", "spec.verdict.restartedList", limits.CONTAINERS_LISTED),
        ("nodeupgradetasks", "status.containers.restartedList", limits.CONTAINERS_LISTED),
        ("nodeupgradetasks", "status.containers.endedList", limits.CONTAINERS_LISTED),
        ("nodeupgradetasks", "status.containers.readinessFlaps", limits.CONTAINERS_LISTED),
        ("nodeupgradetasks", "status.hazards", limits.CONTAINERS_LISTED),
        ("nodeupgradetasks", "status.preview.wouldRestartList", limits.CONTAINERS_LISTED),
        ("nodeupgrades", "status.conditions[].message", limits.CONDITION_MESSAGE_LENGTH),
        ("nodeupgrades", "status.failures", limits.FAILURES_LISTED),
        ("nodeupgrades", "status.failures[].message", limits.FAILURE_MESSAGE_LENGTH),
        ("nodeupgrades", "status.waves[].approvedBy", limits.APPROVER_LENGTH),
    ],
)
def test_limits_are_those_of_the_objects(kind: str, path: str, expected: int) -> None:
    assert limit(kind, path) == expected
