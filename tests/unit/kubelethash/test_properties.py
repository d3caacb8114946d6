"""What must hold for every container, not only for the golden ones."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelethash import KubeletVersion, detect, era_of, explain, hash_container
from tests.unit.kubelethash.containers import (
    CONTAINERS,
    MINORS,
    with_empties,
    with_keys_reversed,
    without_newer_fields,
)


def hashed(container: dict[str, Any], minor: int) -> str:
    return hash_container(container, KubeletVersion(1, minor))


@given(CONTAINERS, MINORS)
def test_fields_newer_than_a_kubelet_do_not_reach_its_hash(container: dict[str, Any], minor: int) -> None:
    unknown = {**container, "fieldOfTomorrow": {"x": [1]}}
    assert hashed(unknown, minor) == hashed(without_newer_fields(container, minor), minor)


@given(CONTAINERS, MINORS)
def test_null_empty_and_absent_agree(container: dict[str, Any], minor: int) -> None:
    assert hashed(with_empties(container), minor) == hashed(container, minor)


@given(CONTAINERS, MINORS)
def test_the_order_of_keys_is_irrelevant(container: dict[str, Any], minor: int) -> None:
    assert hashed(with_keys_reversed(container), minor) == hashed(container, minor)


@given(CONTAINERS, MINORS, MINORS)
def test_explain_is_empty_exactly_when_the_hashes_agree(container: dict[str, Any], one: int, other: int) -> None:
    change = explain(container, KubeletVersion(1, one), KubeletVersion(1, other))
    assert (change is None) == (hashed(container, one) == hashed(container, other))
    if change is not None:
        assert (change.old, change.new) == (hashed(container, one), hashed(container, other))
        assert bool(change.fields) == (era_of(change.from_) is era_of(change.to))


@given(CONTAINERS, MINORS, MINORS)
def test_explained_fields_are_the_whole_difference(container: dict[str, Any], one: int, other: int) -> None:
    """Between two minors of era C, taking the explained fields away makes the hashes agree."""
    low, high = sorted((one % 15 + 16, other % 15 + 16))
    change = explain(container, KubeletVersion(1, low), KubeletVersion(1, high))
    pruned = without_newer_fields(container, low)
    assert (change is None) == (hashed(pruned, high) == hashed(container, high))


@given(st.lists(CONTAINERS, min_size=1, max_size=4), MINORS)
def test_the_minor_that_wrote_the_hashes_is_always_detected(containers: list[dict[str, Any]], minor: int) -> None:
    stored = [(container, hashed(container, minor).upper().zfill(8)) for container in containers]
    assert KubeletVersion(1, minor) in detect(stored)
