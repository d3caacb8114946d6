import pytest

from nodeupgrade.api.json import Json
from nodeupgrade.api.schema.defaulting import filled
from nodeupgrade.api.upgrade.frozen import change_rejected, changeable, frozen_digest
from nodeupgrade.api.upgrade.object import problems
from nodeupgrade.api.upgrade.spec import SPEC
from tests.builders.specs import FULL, MINIMAL, OTHER
from tests.builders.variations import Place, at, places, replaced

FREE = (
    "spec.nodes.exclude",
    "spec.nodes.cordon",
    "spec.waves[].maxConcurrent",
    "spec.waves[].soak",
    "spec.waves[].failureThreshold",
    "spec.strategy",
    "spec.windows",
    "spec.blackouts",
    "spec.healthChecks",
    "spec.timeouts",
    "spec.deletionPolicy",
    "spec.action",
    "spec.approvedWaves",
)


_IMAGE = {name: value for name, value in FULL["artifact"]["image"].items() if name != "sha256"}
_KUBELET = {name: value for name, value in FULL["kubelet"].items() if name != "alsoRejects"}
EARLIER = {name: value for name, value in FULL.items() if name not in {"files", "hooks"}} | {
    "artifact": {"image": _IMAGE},
    "kubelet": _KUBELET,
}
"""As specs were when this digest was recorded; a field that came later does not count where it has its default."""


def test_what_may_be_changed_is_said() -> None:
    assert tuple(changeable()) == FREE
    assert "create another NodeUpgrade" in change_rejected()
    assert all(field in change_rejected() for field in FREE)


@pytest.mark.parametrize(
    ("spec", "digest"),
    [
        (MINIMAL, "sha256:4f4752cc726494477beb0bb42f12c31852ad4214061d84f612987f985452d113"),
        (EARLIER, "sha256:4ebfb26909c23f3fa17f009233fa48f655fb6e166b4e50d7d5985f579f9ddc83"),
    ],
    ids=["minimal", "full"],
)
def test_digests_outlive_versions_of_ours(spec: Json, digest: str) -> None:
    """They stand in the status of objects: another one would stop every rollout that is under way."""
    assert frozen_digest(spec) == digest


@pytest.mark.parametrize("spec", [MINIMAL, FULL], ids=["minimal", "full"])
def test_defaults_do_not_count(spec: Json) -> None:
    assert frozen_digest(filled(SPEC, spec)) == frozen_digest(spec)
    assert frozen_digest({**spec, "fieldOfTheFuture": 1, "strategy": None}) == frozen_digest(spec)


def test_the_order_of_sets_does_not_count() -> None:
    spec = {**FULL, "fromVersions": FULL["fromVersions"][::-1]}
    assert frozen_digest(spec) == frozen_digest(FULL)


def test_the_order_of_waves_does() -> None:
    assert frozen_digest({**FULL, "waves": FULL["waves"][::-1]}) != frozen_digest(FULL)


EDITED = {path: replaced(FULL, path, at(OTHER, path)) for path, _, _ in places(SPEC, FULL) if at(OTHER, path)}
VALID = {path: spec for path, spec in EDITED.items() if spec != FULL and not problems(spec)}


@pytest.mark.parametrize(("path", "edited"), VALID.items(), ids=[".".join(map(str, path)) for path in VALID])
def test_every_other_field_counts(path: Place, edited: Json) -> None:
    name = "spec" + "".join("[]" if isinstance(step, int) else f".{step}" for step in path)
    free = any(name == field or name.startswith((f"{field}.", f"{field}[")) for field in FREE)
    assert (frozen_digest(edited) == frozen_digest(FULL)) == free
