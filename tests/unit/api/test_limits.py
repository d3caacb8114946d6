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


FAR = "node web-1 was not touched because the containers of its pods cannot be listed, and so nothing is known of them"
DENIED = (
    "cannot POST /api/v1/namespaces/nodeupgrade-system/pods because the API server answers 403: pods "
    '"nodeupgrade-agent" is forbidden: violates PodSecurity "restricted:latest": privileged'
)


@pytest.mark.parametrize(
    ("text", "length", "shortened"),
    [
        ("short enough", 12, "short enough"),
        (FAR, 60, "node web-1 was not touched… so nothing is known of them"),
        (DENIED, 128, f"{DENIED[:62]}… {DENIED[DENIED.index('forbidden') :]}"),
        ("a" * 70, 60, f"{'a' * 29}…{'a' * 30}"),
        (f"cannot GET /x because it answers 500: {'b' * 90}", 60, f"cannot GET /x because it…{'b' * 30}"),
        ("abcd", 3, "a…d"),
    ],
)
def test_the_middle_of_a_text_is_left_out_between_words(text: str, length: int, shortened: str) -> None:
    assert limits.shorten(text, length) == shortened
    assert len(shortened) <= length


@pytest.mark.parametrize("text", [FAR, DENIED, "a" * 300, " ".join("a" * 60)])
def test_it_never_exceeds_its_limit(text: str) -> None:
    assert [length for length in range(1, 300) if len(limits.shorten(text, length)) > length] == []
