"""Requests are read strictly: whatever is sent, the answer names the field, or says all that would change."""

import copy
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from nodeupgrade.api.json import Json, MalformedObjectError
from nodeupgrade.capi.requests import can_update_machine, can_update_machine_set, update_machine
from tests.builders import cluster_api
from tests.builders.cluster_api import NEW, OLD, spec

SET = cluster_api.can_update_machine_set()
ONE = cluster_api.can_update_machine(spec(), spec(NEW))
UPDATE = cluster_api.update_machine("m")
READERS: dict[str, tuple[Callable[[Any], Any], Json]] = {
    "set": (can_update_machine_set, SET),
    "one": (can_update_machine, ONE),
    "update": (update_machine, UPDATE),
}
WRONG: tuple[Any, ...] = (None, 0, True, "", "../x", "v1.33.13\n", "A" * 300, [], ["x"], {}, {"x": "y"})

LEFT_OUT = ("clusterName", "bootstrap", "infrastructureRef", "providerID", "readinessGates", "taints", "deletion")
"""Cluster API compares none of these."""


def paths(body: Any, *path: str) -> Iterator[tuple[str, ...]]:
    if isinstance(body, dict):
        for key, value in body.items():
            yield (*path, key)
            yield from paths(value, *path, key)


def changed(body: Json, path: tuple[str, ...], value: Any) -> Json:
    copied: Any = copy.deepcopy(body)
    inner = copied
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copied  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", READERS)
def test_whatever_is_sent_there_is_no_other_error(name: str) -> None:
    reads, body = READERS[name]
    for path in paths(body):
        for value in WRONG:
            with suppress(MalformedObjectError):
                reads(changed(body, path, value))
    nothings: tuple[Any, ...] = (None, [], "x", 1, {})
    for nothing in nothings:
        with pytest.raises(MalformedObjectError, match="apiVersion"):
            reads(nothing)


@pytest.mark.parametrize(
    ("name", "objects", "below"),
    [
        ("set", "machineSet infrastructureMachineTemplate bootstrapConfigTemplate", "spec template spec"),
        ("one", "machine infrastructureMachine bootstrapConfig", "spec"),
    ],
)
def test_nothing_changes_unnoticed(name: str, objects: str, below: str) -> None:
    """Every field of a spec that Cluster API compares, at every depth, in the current as in the desired objects."""
    reads, body = READERS[name]
    assert reads(body).others == ()
    roots = [(side, each, *below.split()) for side in ("current", "desired") for each in objects.split()]
    compared = [path for path in paths(body) if any(path[: len(root)] == root != path for root in roots)]
    compared = [path for path in compared if path[len(roots[0])] not in {*LEFT_OUT, "version"}]
    assert {path[:2] for path in compared} == {root[:2] for root in roots}
    for path in compared:
        assert reads(changed(body, path, "another")).others, path


def test_what_cluster_api_does_not_compare_does_not_count() -> None:
    for name in LEFT_OUT:
        assert (
            can_update_machine_set(cluster_api.can_update_machine_set(after=spec(NEW, **{name: {"a": 1}}))).others == ()
        )


def test_versions_deployment_and_names_are_read() -> None:
    change = can_update_machine_set(SET)
    assert (change.namespace, change.deployment, change.control_plane) == ("clusters", "workers", False)
    assert (change.current, change.desired) == (OLD, NEW)
    update = update_machine(UPDATE)
    assert (update.namespace, update.machine, update.version) == ("clusters", "m", NEW)
    assert update_machine(changed(UPDATE, ("desired", "machine", "spec"), {})).version is None


@pytest.mark.parametrize("name", ["..", "a/b", "A", "", "a" * 254, "a%2fb", "a\n", "é"])
def test_a_name_that_could_lead_elsewhere_is_rejected(name: str) -> None:
    for field in ("name", "namespace"):
        with pytest.raises(MalformedObjectError, match=field):
            update_machine(changed(UPDATE, ("desired", "machine", "metadata", field), name))


def test_the_request_of_another_hook_or_version_is_rejected() -> None:
    with pytest.raises(MalformedObjectError, match="kind"):
        can_update_machine(SET)
    with pytest.raises(MalformedObjectError, match="apiVersion"):
        can_update_machine_set(SET | {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha2"})
