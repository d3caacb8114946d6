from nodeupgrade.kubelethash import NEWEST_MINOR, detect, hash_container

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
