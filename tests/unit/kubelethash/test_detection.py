"""Tests how the kubelet that wrote a hash is detected."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelethash import NEWEST_MINOR, KubeletVersion, detect, group_by_writer, hash_container, series_ranges
from tests.builders.containers import CONTAINERS, MINORS, hashed

CONTAINER = {"name": "c", "image": "i"}


def series(*stored: tuple[dict[str, str], str]) -> list[str]:
    return [version.series for version in detect(stored)]


def test_hashes_of_two_eras_have_no_common_minor() -> None:
    assert series((CONTAINER, hash_container(CONTAINER, "1.30")), (CONTAINER, hash_container(CONTAINER, "1.31"))) == []


def test_a_changed_spec_or_unreadable_value_is_reproduced_by_none() -> None:
    assert series(({**CONTAINER, "image": "j"}, hash_container(CONTAINER, "1.31"))) == []
    assert series((CONTAINER, "not hex")) == []


def test_minors_that_cannot_hash_a_container_are_ruled_out() -> None:
    uncertain = {**CONTAINER, "workingDir": "\b"}
    assert series((uncertain, hash_container(CONTAINER, "1.31"))) == [
        f"1.{minor}" for minor in range(31, NEWEST_MINOR + 1)
    ]


def test_hashes_of_several_kubelets_are_grouped_by_who_wrote_them() -> None:
    stored = [(CONTAINER, hash_container(CONTAINER, minor)) for minor in ("1.12", "1.30", "1.12", "1.33", "1.12")]
    writers = [detect([each]) for each in (*stored, (CONTAINER, "bad"))]

    groups = [(series_ranges(kubelets), count) for kubelets, count in group_by_writer(writers)]

    assert groups == [("1.9 to 1.15", 3), (f"1.31 to {KubeletVersion(1, NEWEST_MINOR).series}", 1), ("1.16 to 1.30", 1)]


def test_one_kubelet_explains_all_that_it_can() -> None:
    v = KubeletVersion.parse

    groups = group_by_writer([(v("1.16"), v("1.17")), (v("1.17"), v("1.18")), (v("1.18"),)])

    assert groups == (((v("1.18"),), 2), ((v("1.16"), v("1.17")), 1))
    assert group_by_writer([()]) == ()


@given(st.lists(CONTAINERS, min_size=1, max_size=4), MINORS)
def test_the_minor_that_wrote_the_hashes_is_always_detected(containers: list[dict[str, Any]], minor: int) -> None:
    stored = [(container, hashed(container, minor).upper().zfill(8)) for container in containers]
    assert KubeletVersion(1, minor) in detect(stored)
