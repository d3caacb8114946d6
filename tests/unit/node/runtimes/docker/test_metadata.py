"""The byte-surgical change of dockerd's files."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeupgrade.kubelethash import HashValue
from nodeupgrade.node.runtimes.cri.hash_annotations import served_hashes
from nodeupgrade.node.runtimes.cri.hash_text import UnexpectedMetadata
from nodeupgrade.node.runtimes.docker.metadata import (
    HASH_LABEL,
    HASH_LABELS,
    HASH_WITHOUT_RESOURCES_LABEL,
    StoredConfig,
)
from nodeupgrade.node.runtimes.inventory import StoredHashes
from tests.builders.docker_files import ID, OTHER, content

HASHES = st.from_regex(r"[1-9a-f][0-9a-f]{0,15}", fullmatch=True).map(HashValue)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
GOOD = content({HASH_LABEL: "aaaa0000"})


@given(old=HASHES, new=HASHES, others=st.dictionaries(TEXT, TEXT, max_size=4), command=st.lists(TEXT, max_size=4))
def test_only_the_bytes_of_the_hash_change(
    old: HashValue, new: HashValue, others: dict[str, str], command: list[str]
) -> None:
    labels = others | {"a": f'"{HASH_LABEL}":"{old}"', HASH_LABEL: old}
    data = content(labels, Cmd=command)
    stored = StoredConfig.of(ID, data)

    changed = replace(stored, data=stored.rewritten(StoredHashes(container=new))).content

    assert json.loads(changed)["Config"]["Labels"] == labels | {HASH_LABEL: new}
    again = StoredConfig.of(ID, changed)
    assert replace(again, data=again.rewritten(StoredHashes(container=old))).content == data
    assert len(changed) - len(data) == len(new) - len(old)
    assert (again.head, again.tail) == (stored.head, stored.tail)


@given(old=HASHES, second=HASHES, new=HASHES, second_new=HASHES)
def test_both_labels_are_changed_independently(
    old: HashValue, second: HashValue, new: HashValue, second_new: HashValue
) -> None:
    stored = StoredConfig.of(ID, content({HASH_LABEL: old, HASH_WITHOUT_RESOURCES_LABEL: second}))

    result = stored.rewritten(StoredHashes(container=new, without_resources=second_new))

    assert stored.hashes() == StoredHashes(container=old, without_resources=second)
    assert StoredConfig(ID, result).hashes() == StoredHashes(container=new, without_resources=second_new)


def test_a_label_of_the_image_that_no_kubelet_writes_is_no_hash() -> None:
    labels = {HASH_LABEL: "aaaa0000", HASH_WITHOUT_RESOURCES_LABEL: "whatever the image says"}
    stored = StoredConfig.of(ID, content(labels))
    new = StoredHashes(container=HashValue("b1"), without_resources=HashValue("c2"))

    result = stored.rewritten(new)

    assert stored.hashes() == served_hashes(labels, HASH_LABELS) == StoredHashes(container=HashValue("aaaa0000"))
    assert result == stored.data.replace(b"aaaa0000", b"b1")


def test_what_dockerd_notes_meanwhile_is_not_part_of_what_is_compared() -> None:
    one, other = (StoredConfig.of(ID, content({HASH_LABEL: "a"}, pid=pid)) for pid in (1, 2))

    assert (one == other, one.content == other.content) == (True, False)


def test_no_part_of_a_file_is_taken_for_the_whole() -> None:
    for end in range(len(GOOD)):
        with pytest.raises(UnexpectedMetadata, match="not a JSON object"):
            StoredConfig.of(ID, GOOD[:end])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"[]", "not a JSON object"),
        (b"\xff" + GOOD, "not a JSON object"),
        (GOOD.replace(b"}", b",}", 1), "not a JSON object"),
        (GOOD.replace(b'{"', b'{7:"', 1), "not a JSON object"),
        (GOOD + b"}", "not a JSON object"),
        (GOOD.replace(ID.encode(), OTHER.encode()), "belongs to"),
        (GOOD.replace(b'"Image":', b'"Config":{},"Image":'), "Config occurs twice"),
        (GOOD.replace(b'"Config":{"Hostname"', b'"Konfig":{"Hostname"'), "no configuration"),
    ],
)
def test_a_file_of_another_form_is_unexpected(data: bytes, why: str) -> None:
    with pytest.raises(UnexpectedMetadata, match=why):
        StoredConfig.of(ID, data)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (b"[]", "not a JSON object"),
        (b'{"Labels":[]}', "labels are not an object"),
        (f'{{"Labels":{{"{HASH_LABEL}":"XYZ"}}}}'.encode(), "not a hash"),
        (f'{{"Labels":{{"{HASH_LABEL}":71234}}}}'.encode(), "not a hash"),
        (f'{{"Labels":{{"{HASH_LABEL}":"a1","{HASH_LABEL}":"a1"}}}}'.encode(), "occurs twice"),
    ],
)
def test_a_configuration_of_another_form_is_unexpected(config: bytes, why: str) -> None:
    with pytest.raises(UnexpectedMetadata, match=why):
        StoredConfig(ID, config).rewritten(StoredHashes(container=HashValue("b2")))


def test_what_is_wanted_has_to_be_a_hash() -> None:
    with pytest.raises(UnexpectedMetadata, match="is not a hash"):
        StoredConfig.of(ID, GOOD).rewritten(StoredHashes(container=HashValue('b","x":"')))
