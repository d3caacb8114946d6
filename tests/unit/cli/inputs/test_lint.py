from datetime import UTC, datetime
from typing import Any

import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.upgrade.object import APPROVE_ANNOTATION, PAUSE_ANNOTATION
from nodeupgrade.cli.inputs.lint import lint
from tests.builders.specs import FULL, INVALID, MINIMAL, MISUNDERSTOOD, OTHER
from tests.scenario.rollout.harness import upgrade_object

NOW = datetime(2026, 6, 1, tzinfo=UTC)
CANARY: Json = {"name": "canary", "size": 1, "approval": "Manual"}


def document(spec: Any = MINIMAL, **annotations: str) -> Json:
    body = upgrade_object("kubelet-1-33-13")
    return {**body, "spec": spec, "metadata": {**body["metadata"], "annotations": annotations}}


def findings(*arguments: Any, **more: Any) -> list[str]:
    return [
        ("" if finding.forbids else "warning: ") + f"{finding.subject}: {finding.detail}"
        for finding in lint(*arguments, **more)
    ]


@pytest.mark.parametrize("spec", [MINIMAL, FULL], ids=["minimal", "full"])
def test_what_is_right_is_passed_over(spec: Json) -> None:
    assert findings(document(spec), document(spec), now=NOW) == []


@pytest.mark.parametrize("spec", [*INVALID.values(), *MISUNDERSTOOD.values()], ids=[*INVALID, *MISUNDERSTOOD])
def test_what_is_invalid_is_found(spec: Json) -> None:
    assert any(finding.forbids for finding in lint(document(spec)))


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ([], [": a list is not an object; write a NodeUpgrade"]),
        (
            {"apiVersion": "v1", "kind": "Pod", "specs": {}},
            [
                "apiVersion: 'v1' is invalid; write nodeupgrade.dev/v1alpha1",
                "kind: 'Pod' is invalid; write NodeUpgrade",
            ],
        ),
        (
            {"apiVersion": "nodeupgrade.dev/v1alpha1", "kind": "NodeUpgrade", "specs": {}},
            [
                "specs: unknown field; the fields here are apiVersion, kind, metadata, spec, status",
                (
                    "metadata.name: null is invalid; write a name of at most 63 lower-case letters, digits, "
                    "hyphens and dots"
                ),
                "spec: required field is missing; write version, artifact and nodes",
            ],
        ),
        (
            {**document(), "metadata": {"name": "a" * 64}},
            ["metadata.name: 64 characters are too many; write at most 63"],
        ),
        (
            document({**MINIMAL, "nodes": {"all": True, "selecter": {}, "colour": "blue"}}),
            [
                "spec.nodes.selecter: unknown field; did you mean selector?",
                (
                    "spec.nodes.colour: unknown field; the fields here are selector, names, all, exclude, "
                    "controlPlane, cordoned, cordon, notReady, membership"
                ),
            ],
        ),
        (
            document({**MINIMAL, "waves": [{"name": "a", "size": 1, "maxconcurrent": 2}]}),
            ["spec.waves[0].maxconcurrent: unknown field; did you mean maxConcurrent?"],
        ),
        (
            document({**MINIMAL, "version": "v1.99.0"}),
            ["spec.version: cannot hash for kubelet v1.99.0 because the newest kubelet known here is"],
        ),
        (
            document({**MINIMAL, "verify": {"settle": "10m"}, "timeouts": {"node": "10m"}}),
            [
                (
                    "warning: spec.timeouts.node: no node can be finished in time, for verify.settle alone takes 10m; "
                    "write more than that"
                )
            ],
        ),
        (
            document({**MINIMAL, "approvedWaves": ["batch"]}),
            [
                (
                    "warning: spec: approvedWaves names a wave that does not exist; write names of spec.waves, or "
                    "remainder (API servers from 1.25 on reject it)"
                )
            ],
        ),
        (
            document({**MINIMAL, "waves": [CANARY]}, **{APPROVE_ANNOTATION: "canary, batch,remainder"}),
            [
                (
                    "warning: metadata.annotations[nodeupgrade.dev/approve]: 'batch' is not a wave; write names of "
                    "spec.waves, or remainder"
                )
            ],
        ),
        (
            document(**{PAUSE_ANNOTATION: "yes"}),
            [
                (
                    'warning: metadata.annotations[nodeupgrade.dev/pause]: only "true" pauses; write that, or remove '
                    "the annotation"
                )
            ],
        ),
    ],
    ids=lambda value: None if isinstance(value, list) else "",
)
def test_what_is_odd_is_found(body: Any, lines: list[str]) -> None:
    assert [line[: len(expected)] for line, expected in zip(findings(body), lines, strict=True)] == lines


def test_windows_under_blackouts_are_found_when_it_is_known_what_time_it_is() -> None:
    spec = {
        **MINIMAL,
        "windows": [{"start": "0 0 * * *", "duration": "1h"}],
        "blackouts": [{"from": "2026-01-01T00:00:00Z", "to": "2040-01-01T00:00:00Z"}],
    }
    assert findings(document(spec)) == []
    (found,) = findings(document(spec), now=NOW)
    assert found.startswith("spec.blackouts: they leave no moment to start a node in the next ten years; change")


def test_edits_that_would_be_rejected_are_found() -> None:
    other = {**FULL, "version": "v1.34.0", "action": "Plan", "approvedWaves": [], "strategy": {}, "waves": []}
    assert findings(document(other), document(FULL)) == [
        "spec.version: it is immutable; create another NodeUpgrade",
        "spec.waves: waves cannot be added, removed, renamed or reordered; create another NodeUpgrade",
        (
            "spec.action: Plan can change to Run or Abort, Run to Pause or Abort, Pause to Run or Abort, and Abort is "
            "final; create another NodeUpgrade to start again"
        ),
        "spec.approvedWaves: an approval cannot be taken back; set spec.action to Pause to stop",
    ]


def test_an_invalid_object_may_be_edited_in_any_way() -> None:
    assert findings(document(FULL), document({**OTHER, "version": "1"})) == []


@pytest.mark.parametrize("name", ["maxConcurrent", "soak", "failureThreshold"])
def test_limits_of_waves_may_be_changed(name: str) -> None:
    limits = {"maxConcurrent": 2, "soak": "2h", "failureThreshold": 2}
    waves = [CANARY, {**CANARY, "name": "second"}]
    changed = [{**wave, name: limits[name]} for wave in waves]
    assert findings(document({**MINIMAL, "waves": changed}), document({**MINIMAL, "waves": waves})) == []
